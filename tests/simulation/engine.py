"""The operations of the model on a real graph, and what that graph shows in the words of the model."""

from __future__ import annotations

import json
from typing import Any

import lance
import pyarrow as pa

import omnigraph_sql as og
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.relations import relations
from tests.crash.world import place_of
from tests.simulation.merging import Decisions
from tests.simulation.model import (
    AppendRows,
    CreateBranch,
    CreateTable,
    DefineView,
    DeleteBranch,
    DeleteRows,
    Drop,
    Insert,
    Load,
    Merge,
    Model,
    Operation,
    Pick,
    Remove,
    Rename,
    Restore,
    Revert,
    SetAge,
)
from tests.simulation.state import Branch, empty
from tests.stores import Place

INSERT = "query q($name: String, $age: I32?) { insert Person { name: $name, age: $age } }"
SET_AGE = "query q($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
REMOVE = "query q($name: String) { delete Person where name = $name }"
SCHEMA_NAME = "main"


def perform(graph: og.Graph, operation: Operation) -> str | None:
    """Run an operation; the id of its commit, if it made one."""
    match operation:
        case Load():
            lines = [json.dumps(record.to_json()) for record in operation.records]
            return _id(graph.load(lines, mode=operation.mode, branch=operation.branch).commit)
        case Insert(branch, name, age):
            return _id(graph.mutate(INSERT, params={"name": name, "age": age}, branch=branch).commit)
        case SetAge(branch, name, age):
            return _id(graph.mutate(SET_AGE, params={"name": name, "age": age}, branch=branch).commit)
        case Remove(branch, name):
            return _id(graph.mutate(REMOVE, params={"name": name}, branch=branch).commit)
        case CreateBranch(name, base):
            graph.create_branch(name, base)
        case DeleteBranch(name):
            graph.delete_branch(name)
        case Merge(source, branch, decisions, delete):
            return _id(graph.merge(source, branch, resolve=_resolve(decisions), delete_source=delete).commit)
        case Revert(branch, back, decisions):
            commit = chain(graph, branch)[back].graph_commit_id
            return _id(graph.revert(commit, branch=branch, resolve=_resolve(decisions)).commit)
        case Pick(source, back, branch, decisions):
            commit = chain(graph, source)[back].graph_commit_id
            return _id(graph.cherry_pick(commit, branch=branch, resolve=_resolve(decisions)).commit)
        case Restore(source, back, branch):
            return _id(graph.restore(chain(graph, source)[back].graph_commit_id, branch=branch).commit)
        case _:
            return _id(_perform_relational(graph, operation))
    return None


def _resolve(decisions: Decisions) -> dict[Any, str] | None:
    return dict(decisions) or None


def chain(graph: og.Graph, branch: str) -> list[Commit]:
    """The commits of a branch from its head down, over first parents."""
    commits = {commit.graph_commit_id: commit for commit in graph.commits(branch)}
    commit = commits[graph.snapshot(branch=branch).commit_id]
    line = [commit]
    while commit.parent_commit_id is not None:
        commit = commits[commit.parent_commit_id]
        line.append(commit)
    return line


def undone(graph: og.Graph, model: Model) -> list[str] | None:
    """The branches to which recovery has added commits, by which it undid what a crash left; None if there are others."""
    branches = []
    for branch in model.branches:
        line = chain(graph, branch)
        more = len(line) - len(model.chain(branch))
        if more < 0 or not all((commit.message or "").startswith("undo of ") for commit in line[:more]):
            return None
        branches += [branch] * more
    return branches


def caught_up(graph: og.Graph, model: Model) -> Model:
    """The model with the commits by which recovery has undone what a crash left."""
    branches = undone(graph, model)
    assert branches is not None, "there are other commits than the model has"
    for branch in branches:
        model = model.restated(branch)
    return model


def _perform_relational(graph: og.Graph, operation: Operation) -> Any:
    match operation:
        case CreateTable(branch, name, rows, replace):
            return graph.tables(branch).create_table(SCHEMA_NAME, name, _rows(rows), replace=replace)
        case AppendRows(branch, name, rows):
            return graph.tables(branch).append(SCHEMA_NAME, name, _rows(rows))
        case DeleteRows(branch, name, number):
            return graph.tables(branch).delete(SCHEMA_NAME, name, f"n = {number}")
        case DefineView(branch, name, sql):
            to = graph.tables(branch)
            return to.define_view(SCHEMA_NAME, name, sql, dialect="duckdb", columns=["n"], replace=True)
        case Rename(branch, name, new_name):
            return graph.tables(branch).rename(SCHEMA_NAME, name, new_name)
        case Drop(branch, name):
            return graph.tables(branch).drop(SCHEMA_NAME, name)
    raise AssertionError(operation)


def _rows(numbers: tuple[int, ...]) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def _id(commit: Any) -> str | None:
    if commit is None or isinstance(commit, str):
        return commit
    found: str = commit.graph_commit_id
    return found


def observe(graph: og.Graph, branch: str, **at: Any) -> Branch:
    """A branch in the words of the model, now or at an earlier version."""
    found = empty()
    for line in graph.export(branch, **at):
        record = json.loads(line)
        data = record["data"]
        if "edge" in record:
            found[record["edge"]][data["id"]] = (record["from"], record["to"])
        else:
            found[record["type"]][data["id"]] = data.get("age")
    snapshot = graph.snapshot(branch=branch, **at)
    for each in relations(snapshot):
        if each.definition is not None:
            found["relations"][each.name] = each.definition["sql"]
        else:
            found["relations"][each.name] = _numbers(place_of(graph), snapshot.entry(each.table_key))
    return found


def _numbers(root: Place, entry: Any) -> tuple[int, ...]:
    """Read past the engine, so that what is published is what is in the table."""
    place = root / entry.path if entry.branch is None else root / entry.path / "tree" / entry.branch
    table = lance.dataset(str(place), version=entry.version).to_table()
    assert table.num_rows == entry.row_count
    return tuple(sorted(table.column("n").to_pylist()))
