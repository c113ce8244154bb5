"""Top-k by match count: the nodes with the most matches, where many tie."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

import omnigraph_sql as og

PEOPLE = 700
SCHEMA = """
node Person { number: I64 @key
  age: I32 }
edge Knows: Person -> Person
"""


@pytest.fixture(scope="module")
def edges() -> list[tuple[int, int]]:
    random = Random(5)
    return sorted({(random.randrange(PEOPLE), int(PEOPLE * random.random() ** 2)) for _ in range(2500)})


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int]]) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("top_k") / "graph", SCHEMA)
    people = {"number": pa.array(range(PEOPLE), pa.int64()), "age": pa.array([n % 7 for n in range(PEOPLE)], pa.int32())}
    knows = {"src": [str(a) for a, _ in edges], "dst": [str(b) for _, b in edges]}
    made.load({"Person": pa.table(people), "Knows": pa.table(knows)}, mode="append")
    return made


@pytest.mark.parametrize("limit", [1, 2, 5, 10, 11, 100, PEOPLE - 1, PEOPLE, 5000])
@pytest.mark.parametrize("above", [-1, 4, 9])
@pytest.mark.parametrize("order", ["n desc", "n desc, $p.number desc", "n", "$p.age, n desc"])
def test_the_first_by_their_number(
    graph: og.Graph, edges: list[tuple[int, int]], limit: int, above: int, order: str
) -> None:
    counts = Counter(b for _, b in edges if b % 7 > above)
    keys = {
        "n desc": lambda p: (-counts[p], p),
        "n desc, $p.number desc": lambda p: (-counts[p], -p),
        "n": lambda p: (counts[p], p),
        "$p.age, n desc": lambda p: (p % 7, -counts[p], p),
    }
    condition = "" if above < 0 else "$p.age > $above"
    text = f"""
    query q($above: I32) {{
      match {{ $f knows $p {condition} }}
      return {{ $p.number, $p.age, count($f) as n }}
      order {{ {order} }}
      limit {limit}
    }}
    """

    rows = [tuple(row.values()) for row in graph.query(text, params={"above": above}).to_pylist()]

    assert rows == [(p, p % 7, counts[p]) for p in sorted(counts, key=keys[order])][:limit]
