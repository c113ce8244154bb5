"""`ogsql ensure-indices`: build the indexes that the schema declares."""

from __future__ import annotations

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import graph_uri, writing


def run(
    uri: str | None, store: str | None, *, branch: str, lance_text: bool, actor: str | None, quiet: bool, as_json: bool
) -> int:
    """Build what is missing and say what could not be built."""
    with writing(graph_uri(uri, store), branch=branch, actor=actor, quiet=quiet) as graph:
        before = graph.snapshot(branch=branch).commit_id
        pending = graph.ensure_indices(branch, lance_text=lance_text, actor=actor)
        after = graph.snapshot(branch=branch).commit_id
        commit = None if after == before else after
        if as_json:
            entries = [each.to_dict() for each in pending]
            output.write_json({"uri": graph.uri, "branch": branch, "graph_commit_id": commit, "pending": entries})
            return 0
        for each in pending:
            output.write(f"pending: {each.table_key}.{each.property}: {each.reason}\n")
        output.write("nothing to build\n" if commit is None else f"commit {commit}\n")
    return 0
