"""Writes with an idempotency key: a repetition gives the first commit again, whatever the first one changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors

SCHEMA = "node P { name: String @key  a: I32?  @unique(a) }"
QUERIES = """
query add($name: String, $a: I32) { insert P { name: $name, a: $a } }
query move($from: I32, $to: I32) { update P set { a: $to } where a = $from }
query drop($a: I32) { delete P where a = $a }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        yield graph


def test_a_mutation_has_a_message_and_is_done_once_per_key(graph: og.Graph) -> None:
    params = {"name": "x", "a": 1}
    first = graph.mutate(QUERIES, "add", params, message="why", idempotency_key="k")
    assert first.commit is not None
    assert (first.commit.message, first.commit.idempotency_key, first.replayed) == ("why", "k", False)
    before = first.commit.parent_commit_id
    again = graph.mutate(QUERIES, "add", params, idempotency_key="k", if_commit=before)
    assert (again.commit, again.replayed, again.affected_nodes) == (first.commit, True, 0)
    assert len(graph.commits()) == 2
    graph.create_branch("other")
    with pytest.raises(errors.PreconditionFailed):
        graph.mutate(QUERIES, "add", params, idempotency_key="k2", if_commit=before)


@pytest.mark.parametrize(("name", "params"), [("move", {"from": 1, "to": 2}), ("drop", {"a": 1})])
def test_a_repetition_that_would_change_nothing_is_told_to_be_one(
    graph: og.Graph, name: str, params: dict[str, int]
) -> None:
    graph.mutate(QUERIES, "add", {"name": "x", "a": 1})
    first = graph.mutate(QUERIES, name, params, idempotency_key="k")
    again = graph.mutate(QUERIES, name, params, idempotency_key="k")
    assert first.affected_nodes == 1
    assert (again.commit, again.replayed) == (first.commit, True)


def test_an_append_is_done_once_per_key(graph: og.Graph) -> None:
    data = '{"type": "P", "data": {"name": "x", "a": 1}}'
    first = graph.load(data, mode="append", idempotency_key="k")
    again = graph.load(data, mode="append", idempotency_key="k")
    assert (again.commit, again.replayed) == (first.commit, True)
    assert len(graph.commits()) == 2
