"""Comparisons of properties with values: for all nodes, for those that hops lead to, and whatever is known of the column."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og

SCHEMA = """
node Item {
  key: String @key
  name: String
  alias: String?
  kind: enum(low, middle, high)
  size: I32
  weight: F64
}
node Box { key: String @key }
edge Holds: Box -> Item
"""
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# The order of texts is that of their bytes, in which the last two are not as they would be in UTF-16.
NAMES = ["", "A", "a", "a ", "ab", "é", "z", "\uffff", "\U0001f600"]
ITEMS = [
    {
        "key": f"k{n}",
        "name": NAMES[n % len(NAMES)],
        "alias": None if n % 4 == 0 else NAMES[n * 5 % len(NAMES)],
        "kind": ("low", "middle", "high")[n % 3],
        "size": n % 7 - 3,
        "weight": (n % 5 - 2) / 4,
    }
    for n in range(60)
]
ASKED = [
    *(("name", "String", value) for value in (*NAMES, "B", "aa", "zz", "\ufffe", "\U0001f601")),
    *(("alias", "String", value) for value in ("a", "aa", "zz", "\U0001f601")),
    *(("kind", "String", value) for value in ("high", "low", "lower", "middle")),
    *(("size", "I32", value) for value in (-4, -3, 0, 3, 4)),
    *(("size", "I64", value) for value in (-(2**40), 2, 2**40)),
    *(("size", "F64", value) for value in (-0.5, 1.0, 1.5)),
    *(("weight", "F64", value) for value in (-0.0, 0.25, 0.3)),
    *(("weight", "I64", value) for value in (0, 1)),
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("comparisons") / "graph", SCHEMA)
    kinds = {"size": pa.int32(), "weight": pa.float64()}
    columns = {name: pa.array([item[name] for item in ITEMS], kinds.get(name, pa.string())) for name in ITEMS[0]}
    made.load({"Item": pa.table(columns), "Box": pa.table({"key": ["box"]})}, mode="append")
    held = [item["key"] for item in ITEMS[::2]]
    made.load({"Holds": pa.table({"src": ["box"] * len(held), "dst": held})}, mode="append")
    return made


def count(graph: og.Graph, match: str, kind: str, value: Any) -> int:
    text = f"query q($v: {kind}) {{ match {{ {match} }} return {{ count($i) as n }} }}"
    return int(graph.query(text, params={"v": value}).to_pylist()[0]["n"])


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize(("name", "kind", "value"), ASKED)
def test_a_comparison_is_the_one_of_the_values(graph: og.Graph, name: str, kind: str, value: Any, op: str) -> None:
    compare = OPERATORS[op]
    holds = [item[name] is not None and compare(_ordered(item[name]), _ordered(value)) for item in ITEMS]

    every, held = sum(holds), sum(holds[::2])
    assert count(graph, f"$i: Item $i.{name} {op} $v", kind, value) == every
    assert count(graph, f'$b: Box {{ key: "box" }} $b holds $i $i.{name} {op} $v', kind, value) == held
    # More than is counted where it is: the hops are made, and their ends are compared.
    rows = f"query q($v: {kind}) {{ match {{ $b: Box $b holds $i $i.{name} {op} $v }} return {{ $i.key }} }}"
    assert len(graph.query(rows, params={"v": value})) == held


@pytest.mark.parametrize("name", ["name", "alias", "kind", "size", "weight"])
def test_nothing_compares_with_null(graph: og.Graph, name: str) -> None:
    kind = {"size": "I32?", "weight": "F64?"}.get(name, "String?")

    assert [count(graph, f"$i: Item $i.{name} {op} $v", kind, None) for op in OPERATORS] == [0] * len(OPERATORS)


def _ordered(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
