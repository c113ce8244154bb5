"""Raw files with every kind of fault, generated, and pipelines that read them on either engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import omnigraph_sql as og
from omnigraph_sql.pipeline import RunReport, run_pipeline

SCHEMA = """
node Person { key: String @key
  name: String?
  age: I32?
  @range(age, 0..150)
  mail: String? @unique
  size: enum(small, large)?
  weight: F64?
  born: Date?
  is_in: Bool? }
edge Knows: Person -> Person @card(0..2) { since: Date? }
"""
PIPELINE = """
graph: {engine}
mode: {mode}
sources:
  people:
    format: jsonl
    path: people/*.jsonl
    columns: {{key: TEXT, name: TEXT, age: TEXT, mail: TEXT, size: TEXT, weight: DOUBLE, born: TEXT, is_in: TEXT, rank: INT}}
  more: {{format: csv, path: more.csv}}
  pairs: {{format: jsonl, path: pairs.jsonl}}
nodes:
  - type: Person
    from: people
    columns: {{key: trim(key), name: name, age: age, mail: mail, size: size, weight: weight, born: born, is_in: is_in}}
    where: coalesce(name, '') <> 'skip'
{dedupe}
  - type: Person
    from: more
    columns: {{key: key, age: age, size: size}}
edges:
  - type: Knows
    from: pairs
    src: a
    dst: b
    columns: {{since: since}}
rejects: {{to: rejects-{engine}.jsonl, max: {most}}}
"""
KEYS = [f"k{number}" for number in range(8)]
BEFORE = "\n".join(
    json.dumps({"type": "Person", "data": {"key": key, "mail": f"{key}@x", "age": 5}}) for key in ("k0", "k1", "old")
)
"""What both graphs hold before a run."""


@dataclass(frozen=True)
class Raw:
    """The files of a run, and how it goes about them."""

    files: Mapping[str, str]
    mode: str
    dedupe: str
    most: str

    def write(self, place: Path) -> None:
        for name, text in self.files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text, encoding="utf-8", newline="")

    def run(self, place: Path, engine: og.PipelineEngineName) -> tuple[og.Graph, RunReport | og.errors.OmnigraphError]:
        """The graph afterwards, and what the run said."""
        graph = og.init(place / engine, SCHEMA)
        graph.load(BEFORE, mode="append")
        file = place / f"{engine}.yaml"
        file.write_text(PIPELINE.format(engine=engine, mode=self.mode, dedupe=self.dedupe, most=self.most))
        try:
            return graph, run_pipeline(file, engine=engine)
        except og.errors.OmnigraphError as error:
            return graph, error


_words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=4)
_numbers = st.integers(-3, 160) | st.sampled_from([2**31, 2**63, 1.5, -0.25, 200])
_odd: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        False,
        "",
        " ",
        "7",
        "007",
        "1e2",
        "3.5",
        "3.0",
        " 7 ",
        "+7",
        "0x10",
        "1_000",
        "\uff19",
        "x",
        [],
        [1, "a"],
        {"a": None},
        "2020-02-30",
        "null",
        "NaN",
        "é\u2028",
        '"',
    ]
)
_any: st.SearchStrategy[Any] = _odd | _words | _numbers


def _mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Now and then something that does not belong there."""
    return st.integers(0, 14).flatmap(lambda drawn: _any if drawn == 7 else usual)


_keys = _mostly(st.sampled_from([*KEYS, " k1 "]))
_days = _mostly(st.sampled_from(["2020-01-31", "1999-12-01", None]))
_persons = st.fixed_dictionaries(
    {"key": _keys},
    optional={
        "name": _mostly(st.sampled_from(["Ann", "skip", "Ünal", None])),
        "age": _mostly(st.integers(0, 150)),
        "mail": _mostly(st.sampled_from(["a@x", "b@x", "c@x", "d@x", "k0@x"])),
        "size": _mostly(st.sampled_from(["small", "large", "large", "large", "medium"])),
        "weight": _mostly(st.sampled_from([1.5, 70, "80.25", None])),
        "born": _days,
        "is_in": _mostly(st.booleans()),
        "rank": _mostly(st.integers(0, 3)),
    },
)
_ends = _mostly(st.sampled_from([*KEYS, "nobody"]))
_pairs = st.fixed_dictionaries({"a": _ends, "b": _ends}, optional={"since": _days})
_broken = st.sampled_from(
    [
        "{broken",
        "[1]",
        "",
        "  ",
        '{"key": "k1"',
        "17",
        '"k1"',
        "null",
        '{"key": 1} x',
        "{'key': 1}",
        '{"key": 1}}',
        "{}",
        '{"key": 1}, "a": 1',
        '{"key": "k1",}',
        '{"key": "k2", "age": NaN}',
        '{"key": "k3", "key": "k4"}',
        '{"key": "k5", "name": "\\ud800"}',
    ]
)


@st.composite
def _lines(draw: st.DrawFn, records: st.SearchStrategy[Any], least: int, most: int) -> str:
    """Lines of JSON, and some that are none."""
    escaped = draw(st.booleans())
    drawn = draw(st.lists(st.tuples(st.integers(0, 8), records, _broken), min_size=least, max_size=most))
    lines = [broken if odds == 5 else json.dumps(record, ensure_ascii=escaped) for odds, record, broken in drawn]
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))


_cells = st.sampled_from(["", '""', "5", "900", "x", "small", '"a ""b"', '"two\nlines"', " 7 ", "k2", "k9", '"k1,k2"', "é"])


@st.composite
def _table(draw: st.DrawFn) -> str:
    """Rows of a CSV file; some are too short or too long."""
    rows = [["key", "age", "size"]]
    for _ in range(draw(st.integers(0, 8))):
        usual = draw(st.integers(0, 3)) > 0
        first = st.sampled_from([*KEYS, "k8"]) if usual else _cells
        width = 3 if usual else draw(st.integers(1, 4))
        rows.append([draw(first), *(draw(_cells) for _ in range(width - 1))])
    return "\n".join(",".join(row) for row in rows) + "\n"


@st.composite
def raws(draw: st.DrawFn) -> Raw:
    """Everything that a run reads."""
    # Spark would pass over some of these names.
    names = draw(st.lists(st.sampled_from(["0", "_1", "2 %20", "_3=4", "5{}"]), min_size=1, max_size=3, unique=True))
    files = {f"people/{name}.jsonl": draw(_lines(_persons, 4, 12)) for name in names}
    files |= {"more.csv": draw(_table()), "pairs.jsonl": draw(_lines(_pairs, 0, 16))}
    keep = "    dedupe: {by: [key], order: rank, keep: %s}"
    dedupe = draw(st.sampled_from(["", keep % "last", keep % "first", "    dedupe: {by: [key, mail]}"]))
    mode = draw(st.sampled_from(["append", "merge", "overwrite"]))
    # Mostly all faults are told; now and then there are more of them than a run may have.
    return Raw(files, mode, dedupe, draw(st.sampled_from(["100%", "100%", "100%", "3"])))


def content(graph: og.Graph) -> tuple[list[Any], list[Any]]:
    """All nodes and edges."""
    fields = ", ".join(f"$p.{name}" for name in ("key", "name", "age", "mail", "size", "weight", "born", "is_in"))
    nodes = f"query q() {{ match {{ $p: Person }} return {{ {fields} }} order {{ $p.key }} }}"
    edges = "query q() { match { $p: Person $p knows $q } return { $p.key, $q.key } order { $p.key, $q.key } }"
    return graph.query(nodes).to_pylist(), graph.query(edges).to_pylist()


def rejected(path: Path) -> list[tuple[Any, ...]]:
    """What was left out, and why. Spark does not number the lines of files, so those are not told."""
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    told = ("type", "rule", "property", "value", "source")
    return sorted(tuple(str(each[name]) for name in told) for each in found)
