"""`ogsql tag`: create, list and delete tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.confirm import confirm
from omnigraph_sql.cli.tables import TableColumn, moment, write_table
from omnigraph_sql.cli.target import graph_and_word, graph_uri, reading, writing

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.tag import TagCreateOptions, TagDeleteOptions

_TAGS = (
    TableColumn("tag"),
    TableColumn("commit", whole=True),
    TableColumn("branch"),
    TableColumn("version", right=True),
    TableColumn("time (UTC)", whole=True),
    TableColumn("actor"),
    TableColumn("message"),
)


def create(options: TagCreateOptions) -> int:
    """Create a tag."""
    uri, name = graph_and_word(options.words, options.store, "NAME")
    with writing(uri, actor=options.actor, quiet=options.quiet) as graph:
        made = graph.tag(name, options.base, message=options.message)
        if options.as_json:
            output.write_json({"uri": graph.uri, **made.to_dict()})
        else:
            output.write(f"created the tag {made.name} at commit {made.graph_commit_id} of {made.branch}\n")
    return 0


def show(uri: str | None, store: str | None, *, as_json: bool) -> int:
    """List the tags, sorted by name."""
    with reading(graph_uri(uri, store)) as graph:
        tags = graph.tags()
    if as_json:
        output.write_json({"tags": [tag.to_dict() for tag in tags]})
        return 0
    rows = [
        (
            tag.name,
            tag.graph_commit_id,
            tag.branch,
            str(tag.manifest_version),
            moment(tag.created_at),
            tag.actor_id or "",
            tag.message or "",
        )
        for tag in tags
    ]
    write_table(_TAGS, rows)
    return 0


def delete(options: TagDeleteOptions) -> int:
    """Delete a tag."""
    uri, name = graph_and_word(options.words, options.store, "NAME")
    confirm(uri, f"delete the tag {name}", yes=options.yes, as_json=options.as_json)
    with writing(uri, actor=options.actor, quiet=options.quiet) as graph:
        graph.delete_tag(name)
        if options.as_json:
            output.write_json({"uri": graph.uri, "name": name, "deleted": True})
        else:
            output.write(f"deleted the tag {name}\n")
    return 0
