"""`ogsql snapshot`, `ogsql commit` and `ogsql recovery`: tables, history and recoveries of a graph."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_sql.cli import output
from omnigraph_sql.cli.projects import default_branch
from omnigraph_sql.cli.tables import TableColumn, count, moment, one_line, write_table
from omnigraph_sql.cli.target import graph_and_word, graph_uri, reading, usage_error

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.commit import CommitListOptions
    from omnigraph_sql.cli.commands.snapshot import SnapshotOptions


_TABLES = (TableColumn("table"), TableColumn("version", right=True), TableColumn("branch"), TableColumn("rows", right=True))
_COMMITS = (
    TableColumn("commit", whole=True),
    TableColumn("branch"),
    TableColumn("version", right=True),
    TableColumn("time (UTC)", whole=True),
    TableColumn("actor"),
    TableColumn("message"),
)
_RECOVERIES = (
    TableColumn("operation", whole=True),
    TableColumn("write"),
    TableColumn("outcome"),
    TableColumn("time (UTC)", whole=True),
    TableColumn("actor"),
    TableColumn("commit", whole=True),
)


def snapshot(options: SnapshotOptions) -> int:
    """Print the tables of a snapshot."""
    target = graph_uri(options.uri, options.store)
    if options.commit is not None and (options.branch is not None or options.version is not None):
        raise usage_error("--commit names a moment of the whole graph and excludes --branch and --at-version")
    with reading(target) as graph:
        state = graph.snapshot(branch=options.branch or default_branch(), version=options.version, commit=options.commit)
    entries = [state.entries[key] for key in sorted(state.entries)]
    if options.as_json:
        output.write_json(
            {
                "branch": state.branch,
                "manifest_version": state.manifest_version,
                "commit_id": state.commit_id,
                "internal_schema_version": state.stamp,
                "tables": [
                    {
                        "table_key": entry.table_key,
                        "version": entry.version,
                        "branch": entry.branch,
                        "row_count": entry.row_count,
                    }
                    for entry in entries
                ],
            }
        )
        return 0
    output.write(f"branch {state.branch}, version {state.manifest_version}, commit {state.commit_id}\n\n")
    rows = [(entry.table_key, str(entry.version), entry.branch or "main", str(entry.row_count)) for entry in entries]
    write_table(_TABLES, rows)
    return 0


def commits(options: CommitListOptions) -> int:
    """Print the history of a branch, or a page of it."""
    with reading(graph_uri(options.uri, options.store)) as graph:
        wanted = [
            commit
            for commit in graph.commits(options.branch, after=options.after)
            if options.actor is None or commit.actor_id == options.actor
        ]
    listed = wanted if options.limit is None else wanted[: options.limit]
    following = listed[-1].graph_commit_id if len(listed) < len(wanted) else None
    if options.as_json:
        page = {"branch": options.branch, "commits": [commit.to_dict() for commit in listed]}
        output.write_json(page | ({} if options.limit is None else {"after": following}))
        return 0
    rows = [
        (
            commit.graph_commit_id,
            commit.manifest_branch or "main",
            str(commit.manifest_version),
            moment(commit.created_at),
            commit.actor_id or "",
            commit.message or "",
        )
        for commit in listed
    ]
    write_table(_COMMITS, rows)
    if following is not None:
        output.write(f"\n{len(wanted) - len(listed)} more: --after {following}\n")
    return 0


def commit(words: Sequence[str], store: str | None, *, as_json: bool) -> int:
    """Print one commit."""
    uri, commit_id = graph_and_word(words, store, "ID")
    with reading(uri) as graph:
        shown = graph.commit(commit_id)
    if as_json:
        output.write_json(shown.to_dict())
        return 0
    lines = {
        "commit": shown.graph_commit_id,
        "branch": shown.manifest_branch or "main",
        "version": str(shown.manifest_version),
        "time": f"{moment(shown.created_at)} UTC",
        "actor": shown.actor_id,
        "parent": shown.parent_commit_id,
        "merged": shown.merged_parent_commit_id,
        "origin": shown.origin_commit_id,
        "message": shown.message,
        "key": shown.idempotency_key,
    }
    present = {name: one_line(text) for name, text in lines.items() if text is not None}
    output.write_styled([("bold", f"{name:<9}"), ("source", text)] for name, text in present.items())
    return 0


def recoveries(uri: str | None, store: str | None, *, as_json: bool) -> int:
    """Print interrupted operations: pending, quarantined and recovered."""
    with reading(graph_uri(uri, store)) as graph:
        operations = graph.recoveries()
    recovered = [_decoded(row) for row in operations["audit"]]
    if as_json:
        output.write_json({"pending": operations["pending"], "quarantined": operations["quarantined"], "audit": recovered})
        return 0
    for state in ("pending", "quarantined"):
        output.write("".join(f"{state} {name}\n" for name in operations[state]))
    if recovered:
        write_table(_RECOVERIES, [_recovery(row) for row in recovered])
    counts = ", ".join(f"{len(operations[state])} {state}" for state in ("pending", "quarantined"))
    output.write(f"{'' if not recovered else chr(10)}{counts}, {count(len(recovered), 'operation')} recovered\n")
    return 0


def _decoded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "per_table_outcomes": json.loads(row["per_table_outcomes"])}


def _recovery(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["operation_id"],
        row["sidecar_writer_kind"],
        row["recovery_kind"],
        moment(row["created_at"]),
        row["recovery_for_actor"] or "",
        row["graph_commit_id"] or "",
    )
