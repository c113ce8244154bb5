"""`ogsql ensure-indices`: build the indexes that the schema declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.target import graph_uri, writing

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.ensure_indices import EnsureIndicesOptions


def run(options: EnsureIndicesOptions) -> int:
    """Build missing indexes and report those that cannot be built."""
    with writing(
        graph_uri(options.uri, options.store), branch=options.branch, actor=options.actor, quiet=options.quiet
    ) as graph:
        before = graph.snapshot(branch=options.branch).commit_id
        pending = graph.ensure_indices(options.branch, lance_text=options.lance_text, actor=options.actor)
        after = graph.snapshot(branch=options.branch).commit_id
        commit = None if after == before else after
        if options.as_json:
            entries = [index.to_dict() for index in pending]
            output.write_json({"uri": graph.uri, "branch": options.branch, "graph_commit_id": commit, "pending": entries})
            return 0
        for index in pending:
            output.write(f"pending: {index.table_key}.{index.property}: {index.reason}\n")
        output.write("nothing to build\n" if commit is None else f"commit {commit}\n")
    return 0
