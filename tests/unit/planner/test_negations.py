"""Many negations in one query."""

import json
from pathlib import Path

import pytest

import omnigraph_sql as og

SCHEMA = """
node Port { code: String @key  depth: I32? }
edge Lane: Port -> Port { miles: I32? }
"""
COUNT = 6


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(Path(tmp_path_factory.mktemp("negations")) / "graph", SCHEMA)
    ports = [{"type": "Port", "data": {"code": f"P{n}", "depth": n}} for n in range(COUNT)]
    lanes = [{"edge": "Lane", "from": f"P{n}", "to": f"P{(n + 1) % COUNT}", "data": {"miles": n}} for n in range(COUNT)]
    made.load([json.dumps(record) for record in (*ports, *lanes)], mode="append")
    return made


@pytest.mark.parametrize("count", [1, 3, 14])
def test_each_further_negation_costs_about_the_same(graph: og.Graph, count: int) -> None:
    """Each is about both ports and an edge, so that rows have to be matched again; together they leave out `count` miles."""
    texts = [f"not {{ $a $w{n}:lane $x{n} $w{n}.miles = {n} $b lane $x{n} }}" for n in range(count)]
    query = f"query q() {{ match {{ $a: Port $b: Port {' '.join(texts)} }} return {{ $a.code, $b.code }} }}"
    rows = {tuple(row.values()) for row in graph.query(query).to_pylist()}

    # Only a port itself leads to where its own lane leads.
    assert rows == {(f"P{a}", f"P{b}") for a in range(COUNT) for b in range(COUNT) if not (a == b and a < count)}


def test_a_negation_between_two_bound_nodes_is_a_condition(graph: og.Graph) -> None:
    text = "query q() { match { $a: Port $a lane $b not { $b lane $a } } return { count($a) as n } }"

    assert graph.query(text).to_pylist() == [{"n": COUNT}]
    assert "anti" not in graph.explain(text).sql.lower()


@pytest.mark.parametrize(
    ("condition", "kept_out"), [("", [0, 1, 2, 3, 4, 5]), ("$x.depth > 2", [2, 3, 4]), ("$x.depth = $depth", [3])]
)
def test_a_negated_meeting_is_a_condition(graph: og.Graph, condition: str, kept_out: list[int]) -> None:
    """Two hops lead from each port to the one after the next, over a port with a depth."""
    declared = "($depth: I32)" if "$depth" in condition else "()"
    body = f"$a lane $m $m lane $b not {{ $a lane $x $x lane $b {condition} }}"
    text = f"query q{declared} {{ match {{ {body} }} return {{ $a.code }} }}"
    params = {"depth": 4} if "$depth" in condition else None
    through = {n: (n + 1) % COUNT for n in range(COUNT)}

    rows = {row["a.code"] for row in graph.query(text, params=params).to_pylist()}

    assert rows == {f"P{n}" for n in through if n not in kept_out}
    assert "anti" not in graph.explain(text, params=params).sql.lower()
