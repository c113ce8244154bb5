"""Groups by texts over many rows: grouping by dictionary codes gives the groups of the texts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName

PEOPLE = 130
THINGS = 4
SCHEMA = """
node Person { number: I64 @key
  nick: String?
  kind: enum(low, high, middle) }
edge Knows: Person -> Person { since: I32
  trust: F64? }
node Thing { number: I64 @key }
edge Owns: Person -> Thing
"""
NICKS = ["b", "a", None, "ä", "B", "", "aa"]
KINDS = ["low", "high", "middle"]
BOTH = """
query both($year: I32) {
  match { $p $w:knows $q $w.since >= $year }
  return { $p.nick as one, $q.kind as other, count($p) as n, max($w.since) as last }
  order { one desc, other } limit 12
}
"""
EVERYTHING = """
query everything() {
  match { $p $w:knows $q }
  return { $q.kind as kind, $p.nick as nick, $w.since as since, min($p.nick) as first, sum($p.number) as numbers,
    avg($w.trust) as trust, count($w.trust) as trusted, max($w.trust) as most, count($q) as n }
  order { kind, nick, since }
}
"""
OWNED = """
query owned() {
  match { $p $w:knows $q $w.since >= 2000 $p owns $t }
  return { $p.nick as nick, $q.kind as kind, count($t) as n }
}
"""
COUNTED = "query counted() { match { $p $w:knows $q } return { $q.nick as nick, count($w.since) as n } order { n desc } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("texts") / "graph", SCHEMA)
    numbers = range(PEOPLE)
    nicks, kinds = pa.array([NICKS[each % 7] for each in numbers]), pa.array([KINDS[each % 3] for each in numbers])
    made.load({"Person": pa.table({"number": list(numbers), "nick": nicks, "kind": kinds})}, mode="append")
    ends = [(a, b) for a in numbers for b in numbers]
    since = pa.array([2000 + (3 * a + b) % 25 for a, b in ends], pa.int32())
    trust = pa.array([trust_of(a, b) for a, b in ends], pa.float64())
    src, dst = [str(a) for a, _ in ends], [str(b) for _, b in ends]
    made.load({"Knows": pa.table({"src": src, "dst": dst, "since": since, "trust": trust})}, mode="append")
    made.load({"Thing": pa.table({"number": list(range(THINGS))})}, mode="append")
    made.load({"Owns": pa.table({"src": ["0"] * THINGS, "dst": [str(n) for n in range(THINGS)]})}, mode="append")
    return made


def trust_of(a: int, b: int) -> float | None:
    return None if (a + b) % 5 == 0 or a % 7 == 3 else (a * b % 11 - 5) / 4


def text_order(text: str | None) -> tuple[bool, bytes]:
    return text is not None, (text or "").encode()


@pytest.mark.parametrize("year", [2000, 2010, 2024, 3000])
def test_groups_by_two_texts(graph: og.Graph, year: int) -> None:
    counts: Counter[tuple[str | None, str]] = Counter()
    last: dict[tuple[str | None, str], int] = {}
    for a in range(PEOPLE):
        for b in range(PEOPLE):
            since, group = 2000 + (3 * a + b) % 25, (NICKS[a % 7], KINDS[b % 3])
            if since >= year:
                counts[group] += 1
                last[group] = max(last.get(group, 0), since)
    ordered = sorted(
        sorted(counts, key=lambda group: group[1].encode()), key=lambda group: text_order(group[0]), reverse=True
    )
    # A stable sort in reverse keeps equal ones in their order.
    expected = [{"one": one, "other": other, "n": counts[one, other], "last": last[one, other]} for one, other in ordered]

    assert graph.query(BOTH, params={"year": year}).to_pylist() == expected[:12]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_aggregates_of_both_ends_and_of_edges(graph: og.Graph, engine: EngineName) -> None:
    groups: dict[tuple[str, str | None, int], list[tuple[int, float | None]]] = {}
    for a in range(PEOPLE):
        for b in range(PEOPLE):
            group = KINDS[b % 3], NICKS[a % 7], 2000 + (3 * a + b) % 25
            groups.setdefault(group, []).append((a, trust_of(a, b)))
    expected = []
    for kind, nick, since in sorted(groups, key=lambda group: (group[0], text_order(group[1]), group[2])):
        rows = groups[kind, nick, since]
        known = [trust for _, trust in rows if trust is not None]
        expected.append(
            {
                "kind": kind,
                "nick": nick,
                "since": since,
                "first": nick,
                "numbers": sum(a for a, _ in rows),
                "trust": pytest.approx(sum(known) / len(known)) if known else None,
                "trusted": len(known),
                "most": max(known, default=None),
                "n": len(rows),
            }
        )

    assert graph.query(EVERYTHING, engine=engine).to_pylist() == expected


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_edges_whose_ends_lack_a_counted_match_make_no_group(graph: og.Graph, engine: EngineName) -> None:
    kinds = Counter(KINDS[b % 3] for b in range(PEOPLE))
    rows = graph.query(OWNED, engine=engine).to_pylist()

    assert {(row["nick"], row["kind"]): row["n"] for row in rows} == {
        (NICKS[0], kind): THINGS * n for kind, n in kinds.items()
    }


def test_ties_are_in_the_order_of_texts(graph: og.Graph) -> None:
    counts = Counter(NICKS[b % 7] for _ in range(PEOPLE) for b in range(PEOPLE))
    expected = sorted(sorted(counts, key=text_order), key=lambda nick: -counts[nick])

    assert graph.query(COUNTED).to_pylist() == [{"nick": nick, "n": counts[nick]} for nick in expected]


def test_an_explanation_says_so(graph: og.Graph, tmp_path: Path) -> None:
    explanation = graph.explain(BOTH, params={"year": 2000})

    assert "groups by numbers of $p.nick, $q.kind" in explanation.rules
    few = og.init(tmp_path / "graph", SCHEMA)
    assert not [rule for rule in few.explain(BOTH, params={"year": 2000}).rules if "numbers" in rule]


def test_an_analysis_names_the_texts(graph: og.Graph) -> None:
    explanation = graph.explain(BOTH, params={"year": 2000}, analyze=True)

    assert any("$p.nick, $q.kind" in line for line in explanation.steps.lines())
