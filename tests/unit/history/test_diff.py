"""What differs between two states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph_sql as og
from omnigraph_sql.errors import BadRequest, NotFound
from omnigraph_sql.history.diff import ChangeSet

SCHEMA = """
node Person { name: String @key  age: I32?  score: F64?  tags: [String]?  vec: Vector(2)?  photo: Blob? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""


def node(name: str, **values: Any) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, **values}})


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", SCHEMA)
    graph.load([node("Ann", age=1), node("Bob", age=2), '{"edge":"Knows","from":"Ann","to":"Bob","data":{}}'], mode="append")
    return graph


def told(changes: ChangeSet) -> list[tuple[str, str, str]]:
    return [(each.op, each.type_name, each.id) for each in changes.changes]


def test_nothing_differs_between_a_state_and_itself(graph: og.Graph) -> None:
    found = graph.diff("main", "main")

    assert (found.changes, found.tables_changed, found.stats.types_affected) == ((), (), 0)


def test_inserts_updates_and_deletes_along_a_branch(graph: og.Graph) -> None:
    graph.mutate('query q() { update Person set { age: 9 } where name = "Ann" }')
    graph.mutate('query q() { delete Person where name = "Bob" }')
    graph.load([node("Cy")], mode="append")

    found = graph.diff("main@2", "main")
    assert told(found)[:3] == [("update", "Person", "Ann"), ("delete", "Person", "Bob"), ("insert", "Person", "Cy")]
    assert found.changes[3].op == "delete"
    assert found.changes[3].endpoints is not None
    assert (found.changes[3].endpoints.src, found.changes[3].endpoints.dst) == ("Ann", "Bob"), "its last ends"
    assert vars(found.stats) == {"inserts": 1, "updates": 1, "deletes": 2, "types_affected": 2}
    assert (found.from_version, found.to_version, found.branch) == (2, 5, "main")

    back = graph.diff("main", "main@2")
    assert told(back)[:3] == [("update", "Person", "Ann"), ("insert", "Person", "Bob"), ("delete", "Person", "Cy")]


def test_states_are_named_by_branch_version_or_commit(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.load([node("Cy")], mode="append", branch="draft")
    first, last = graph.commits("draft")[-1].graph_commit_id, graph.commits("draft")[0].graph_commit_id

    assert told(graph.diff("main", "draft")) == [("insert", "Person", "Cy")]
    assert told(graph.diff("draft", f"@{last}")) == []
    assert len(graph.diff(first, last).changes) == 4
    assert graph.diff("main", "draft").branch is None
    with pytest.raises(NotFound, match="nowhere"):
        graph.diff("main", "nowhere")


def test_updates_are_seen_across_the_first_write_of_a_branch(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.mutate('query q() { update Person set { age: 5 } where name = "Bob" }', branch="draft")

    assert told(graph.diff("main", "draft")) == [("update", "Person", "Bob")]


def test_what_only_rewrites_a_table_is_no_change(graph: og.Graph) -> None:
    before = graph.commits()[0].graph_commit_id
    graph.load([node("Ann", age=1)], mode="merge")
    for number in range(40):  # enough for small fragments to be folded
        graph.load([node(f"P{number}")], mode="append")
        graph.mutate(f'query q() {{ delete Person where name = "P{number}" }}')
    graph.ensure_indices()

    found = graph.diff(before, "main")
    assert found.changes == ()
    assert found.tables_changed == ()


def test_values_of_all_kinds_are_compared(graph: og.Graph) -> None:
    first = {"score": 1.5, "tags": ["a", "b"], "vec": [1.0, 2.0], "photo": "base64:aGk="}
    graph.load([_line("X", first)], mode="append")
    last = graph.snapshot().manifest_version
    graph.load([_line("X", first)], mode="merge")
    assert told(graph.diff(f"main@{last}", "main")) == []

    for name, value in {"score": None, "tags": [], "vec": [0.0, 2.0], "photo": "base64:aGo=", "age": 3}.items():
        graph.load([_line("X", first | {name: value})], mode="merge")
        assert told(graph.diff(f"main@{last}", "main")) == [("update", "Person", "X")], name
    graph.load([_line("X", first)], mode="merge")
    assert told(graph.diff(f"main@{last}", "main")) == []


def _line(name: str, values: dict[str, Any]) -> str:
    return node(name, **{key: value for key, value in values.items() if value is not None})


def test_filters_and_their_errors(graph: og.Graph) -> None:
    assert told(graph.diff("main@1", "main", kinds=["node"])) == [("insert", "Person", "Ann"), ("insert", "Person", "Bob")]
    assert [each.kind for each in graph.diff("main@1", "main", types=["Knows"]).changes] == ["edge"]
    assert graph.diff("main@1", "main", ops=["delete"]).changes == ()
    wrong: list[dict[str, Any]] = [{"kinds": ["nodes"]}, {"types": ["Persn"]}, {"ops": ["remove"]}]
    for filters in wrong:
        with pytest.raises(BadRequest, match="there is no"):
            graph.diff("main@1", "main", **filters)


def test_tables_and_views_are_listed_by_key(graph: og.Graph) -> None:
    graph.tables().define_view("main", "v", "select 1 as x", dialect="ansi", columns=["x"])

    assert graph.diff("main@2", "main").tables_changed == ("view:main.v",)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["main", "draft"]), st.sampled_from(["put", "drop", "link"]), st.integers(0, 4), st.integers(0, 4)
    ),
    max_size=10,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_a_diff_is_what_exports_differ_by(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    _check(tmp_path_factory, steps)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_a_diff_is_what_exports_differ_by_often(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    _check(tmp_path_factory, steps)


def _check(factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    graph = og.init(factory.mktemp("diff") / "graph", SCHEMA)
    graph.load([node(f"P{number}", age=number) for number in range(3)], mode="append")
    graph.create_branch("draft")
    for branch, what, one, other in steps:
        if what == "put":
            graph.load([node(f"P{one}", age=other)], mode="merge", branch=branch)
        elif what == "drop":
            graph.mutate(f'query q() {{ delete Person where name = "P{one}" }}', branch=branch)
        else:
            graph.load([node(f"P{each}", age=each) for each in {one, other}], mode="merge", branch=branch)
            line = {"edge": "Knows", "from": f"P{one}", "to": f"P{other}", "data": {"since": one}}
            graph.load([json.dumps(line)], mode="append", branch=branch)
    states = ["main@1", "main@2", "main", "draft"]
    for start in states:
        for end in states:
            assert told(graph.diff(start, end)) == _expected(graph, start, end), (start, end)


def _expected(graph: og.Graph, start: str, end: str) -> list[tuple[str, str, str]]:
    before, after = _records(graph, start), _records(graph, end)
    found = [("insert", *key) for key in after.keys() - before.keys()]
    found += [("delete", *key) for key in before.keys() - after.keys()]
    found += [("update", *key) for key in before.keys() & after.keys() if before[key] != after[key]]
    order = {"City": 0, "Person": 1, "Knows": 2}
    return sorted(found, key=lambda each: (order[each[1]], each[2]))


def _records(graph: og.Graph, state: str) -> dict[tuple[str, str], Any]:
    branch, _, version = state.partition("@")
    lines = [json.loads(line) for line in graph.export(branch, version=int(version) if version else None)]
    return {(line.get("type") or line["edge"], line["data"]["id"]): line for line in lines}
