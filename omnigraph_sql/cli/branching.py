"""`ogsql branch`: create, list and delete branches."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import graph_and_word, graph_uri, reading, writing
from omnigraph_sql.cli.confirming import confirm


def create(words: Sequence[str], store: str | None, *, base: str, actor: str | None, quiet: bool, as_json: bool) -> int:
    """A new branch."""
    uri, name = graph_and_word(words, store, "NAME")
    with writing(uri, branch=name, actor=actor, quiet=quiet) as graph:
        made = graph.create_branch(name, base)
        if as_json:
            output.write_json(
                {"uri": graph.uri, "name": made, "from": base, "commit_id": graph.snapshot(branch=made).commit_id}
            )
        else:
            output.write(f"created the branch {made} from {base}\n")
    return 0


def show(uri: str | None, store: str | None, *, as_json: bool) -> int:
    """All branches, by name."""
    with reading(graph_uri(uri, store)) as graph:
        names = graph.branches()
    if as_json:
        output.write_json({"branches": names})
    else:
        output.write("".join(f"{name}\n" for name in names))
    return 0


def delete(words: Sequence[str], store: str | None, *, yes: bool, actor: str | None, quiet: bool, as_json: bool) -> int:
    """One branch less."""
    uri, name = graph_and_word(words, store, "NAME")
    confirm(uri, f"delete the branch {name}", yes=yes, as_json=as_json)
    with writing(uri, branch=name, actor=actor, quiet=quiet) as graph:
        graph.delete_branch(name)
        if as_json:
            output.write_json({"uri": graph.uri, "name": name, "deleted": True})
        else:
            output.write(f"deleted the branch {name}\n")
    return 0
