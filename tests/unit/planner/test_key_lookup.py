"""Nodes by their key, whatever its type and whatever is given for it."""

from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og

SCHEMA = """
node Day { on: Date @key  note: String? }
node Moment { at: DateTime @key }
node Berth { number: I32 @key }
node Sign { flag: Bool  number: U64  @key(flag, number) }
"""
RECORDS = """
{"type": "Day", "data": {"on": "2020-02-29", "note": "leap"}}
{"type": "Day", "data": {"on": "2021-03-01"}}
{"type": "Moment", "data": {"at": "2020-02-29T12:00:00.5Z"}}
{"type": "Berth", "data": {"number": 4}}
{"type": "Berth", "data": {"number": 5}}
{"type": "Sign", "data": {"flag": true, "number": 9007199254740993}}
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(Path(tmp_path_factory.mktemp("keys")) / "graph", SCHEMA)
    made.load(RECORDS, mode="append")
    return made


@pytest.mark.parametrize(
    ("match", "params", "found"),
    [
        ('$x: Day { on: date("2020-02-29") }', {}, 1),
        ("$x: Day $x.on = $day", {"day": "2021-03-01"}, 1),
        ('$x: Day { on: date("2020-03-01") }', {}, 0),
        ('$x: Moment { at: datetime("2020-02-29T12:00:00.500Z") }', {}, 1),
        ('$x: Moment { at: datetime("2020-02-29T12:00:00Z") }', {}, 0),
        ("$x: Berth $x.number = $n", {"n": 4.0}, 1),
        ("$x: Berth $x.number = $n", {"n": 4.5}, 0),
        ("$x: Berth $x.number = 9000000000", {}, 0),
        ("$x: Sign { flag: true, number: 9007199254740993 }", {}, 1),
        ("$x: Sign { flag: false, number: 9007199254740993 }", {}, 0),
    ],
)
def test_a_key_is_looked_up(graph: og.Graph, match: str, params: dict[str, Any], found: int) -> None:
    declared = {"day": "$day: Date", "n": "$n: F64"}
    given = ", ".join(declared[name] for name in params)
    text = f"query q({given}) {{ match {{ {match} }} return {{ $x }} }}"

    assert len(graph.query(text, params=params)) == found
