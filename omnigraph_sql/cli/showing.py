"""`ogsql snapshot`, `ogsql commit` and `ogsql recovery`: what a graph holds, held, and went through."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import graph_and_word, graph_uri, reading, usage_error
from omnigraph_sql.cli.tabulating import Column, count, moment, one_line, write_table

_TABLES = (Column("table"), Column("version", right=True), Column("branch"), Column("rows", right=True))
_COMMITS = (
    Column("commit", whole=True),
    Column("branch"),
    Column("version", right=True),
    Column("time (UTC)", whole=True),
    Column("actor"),
    Column("message"),
)
_RECOVERIES = (
    Column("operation", whole=True),
    Column("write"),
    Column("outcome"),
    Column("time (UTC)", whole=True),
    Column("actor"),
    Column("commit", whole=True),
)


def snapshot(
    uri: str | None, store: str | None, *, branch: str | None, version: int | None, commit: str | None, as_json: bool
) -> int:
    """The tables a reader sees."""
    target = graph_uri(uri, store)
    if commit is not None and (branch is not None or version is not None):
        raise usage_error("--commit names a moment of the whole graph and excludes --branch and --at-version")
    with reading(target) as graph:
        found = graph.snapshot(branch=branch or "main", version=version, commit=commit)
    entries = [found.entries[key] for key in sorted(found.entries)]
    if as_json:
        output.write_json(
            {
                "branch": found.branch,
                "manifest_version": found.manifest_version,
                "commit_id": found.commit_id,
                "internal_schema_version": found.stamp,
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
    output.write(f"branch {found.branch}, version {found.manifest_version}, commit {found.commit_id}\n\n")
    rows = [(entry.table_key, str(entry.version), entry.branch or "main", str(entry.row_count)) for entry in entries]
    write_table(_TABLES, rows)
    return 0


def commits(uri: str | None, store: str | None, *, branch: str, actor: str | None, as_json: bool) -> int:
    """The history of a branch."""
    with reading(graph_uri(uri, store)) as graph:
        found = [each for each in graph.commits(branch) if actor is None or each.actor_id == actor]
    if as_json:
        output.write_json({"branch": branch, "commits": [each.to_dict() for each in found]})
        return 0
    rows = [
        (
            each.graph_commit_id,
            each.manifest_branch or "main",
            str(each.manifest_version),
            moment(each.created_at),
            each.actor_id or "",
            each.message or "",
        )
        for each in found
    ]
    write_table(_COMMITS, rows)
    return 0


def commit(words: Sequence[str], store: str | None, *, as_json: bool) -> int:
    """One commit."""
    uri, commit_id = graph_and_word(words, store, "ID")
    with reading(uri) as graph:
        found = graph.commit(commit_id)
    if as_json:
        output.write_json(found.to_dict())
        return 0
    lines = {
        "commit": found.graph_commit_id,
        "branch": found.manifest_branch or "main",
        "version": str(found.manifest_version),
        "time": f"{moment(found.created_at)} UTC",
        "actor": found.actor_id,
        "parent": found.parent_commit_id,
        "merged": found.merged_parent_commit_id,
        "message": found.message,
        "key": found.idempotency_key,
    }
    present = {name: one_line(text) for name, text in lines.items() if text is not None}
    output.write_styled([("bold", f"{name:<9}"), ("source", text)] for name, text in present.items())
    return 0


def recoveries(uri: str | None, store: str | None, *, as_json: bool) -> int:
    """Operations that were interrupted: still pending, set aside, and recovered."""
    with reading(graph_uri(uri, store)) as graph:
        found = graph.recoveries()
    recovered = [_decoded(row) for row in found["audit"]]
    if as_json:
        output.write_json({"pending": found["pending"], "quarantined": found["quarantined"], "audit": recovered})
        return 0
    for state in ("pending", "quarantined"):
        output.write("".join(f"{state} {name}\n" for name in found[state]))
    if recovered:
        write_table(_RECOVERIES, [_recovery(row) for row in recovered])
    counts = ", ".join(f"{len(found[state])} {state}" for state in ("pending", "quarantined"))
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
