"""The two ways of reading agree on every line: the same row, or the same refusal."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph_compiler import EdgeType
from omnigraph_sql.writes.readers import ReaderLimits, Reject
from omnigraph_sql.writes.readers.block_parser import BlockParser, Lines
from omnigraph_sql.writes.readers.layout import Layout
from tests.unit.reading.graphs import CATALOG, alone, lane, many_of_it, node, port, read, rows_by_line

ULID = re.compile("[0-9A-HJKMNP-TV-Z]{26}")
GARBAGE = ["", '"', "}", "{", ",", ":", "\\", "null", " ", "\x00", "1", "]"]
SPACES = st.sampled_from(["", "", "", " ", "\t", "  ", "\r"])

strings = st.one_of(
    st.text(max_size=8).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.text(max_size=8).map(json.dumps),
    st.sampled_from(
        [
            '"A"',
            '"sea"',
            '"null"',
            '"2024-02-29"',
            '"2023-02-29"',
            '"0000-01-01"',
            '"2024-05-01T12:00:00Z"',
            '"2024-05-01 12:00:00.1234+01:30"',
            '"2024-05-01T12:00:60Z"',
            '"9999-12-31T23:59:59.999-00:01"',
            '"base64:aGk="',
            '"base64:aGk"',
            '"\\ud83d\\ude00"',
            '"\\ud83d"',
            '"\\u0000"',
            '"a\\/b"',
            '"\x01"',
        ]
    ),
)
numbers = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.integers(-1000, 1000).map(str),
    st.integers(-1000, 1000).map(lambda number: f"{number}.0"),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["-0", "-0.0", "1e3", "1E+3", "1e400", "-1e-400", "1e-7", "3.4028235677973366e38", "3.4028235677973367e38"],
    ),
    st.sampled_from(["9007199254740993.0", "9007199254740993", "1" * 30, f"0.1{'0' * 30}1"]),
    st.sampled_from(["1", "2", "3", "01", "NaN"]),
)
scalars = st.one_of(strings, numbers, st.sampled_from(["true", "false", "null", "nul"]))
arrays = st.lists(scalars, max_size=4).map(lambda items: f"[{','.join(items)}]")
vectors = st.lists(numbers, min_size=3, max_size=3).map(lambda items: f"[{', '.join(items)}]")
values = st.one_of(scalars, scalars, arrays, vectors, st.sampled_from(["{}", '{"a": 1}', '{"a": 1, "a": 2}', "[[1]]", ""]))

FITTING: dict[str, st.SearchStrategy[str]] = {
    "String": strings,
    "Bool": st.sampled_from(["true", "false", "null", "0"]),
    "Date": st.one_of(strings, st.dates().map(lambda day: f'"{day}"'), st.integers(-(10**6), 10**7).map(str)),
    "DateTime": st.one_of(
        strings, st.datetimes().map(lambda at: f'"{at.isoformat()}Z"'), st.integers(-(10**14), 10**15).map(str)
    ),
    "Vector": vectors,
    "Blob": st.one_of(strings, st.sampled_from(['"base64:"', '"base64:AAAA"', '"base64:A"', '"file:///x"'])),
}


def fitting(type_: Any) -> st.SearchStrategy[str]:
    """Values that often are of the type."""
    one = FITTING.get(type_.scalar, numbers)
    if type_.is_list:
        return st.lists(one, max_size=4).map(lambda items: f"[{','.join(items)}]")
    return one


def rarely(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 29)) == 17  # the ends of a range are drawn more often than the rest


@st.composite
def members(draw: st.DrawFn, type_: Any) -> str:
    """The inside of `data`."""
    names = draw(st.lists(st.sampled_from([*type_.properties, "id"]), max_size=6))
    names = names if rarely(draw) else list(dict.fromkeys(names))
    required = [name for name, prop in type_.properties.items() if not prop.type.nullable and prop.default is None]
    names += [name for name in required if name not in names and not rarely(draw)]
    if rarely(draw):
        names.append(draw(st.sampled_from(["other", "src", "_rowid", "code", "data", "type"])))
    written = []
    for name in draw(st.permutations(names)):
        strategy = fitting(type_.properties[name].type) if name in type_.properties else strings
        if rarely(draw):
            strategy = values
        elif rarely(draw):
            strategy = st.just("null")
        spelled = f"\\u{ord(name[0]):04x}{name[1:]}" if rarely(draw) else name
        written.append(f'{draw(SPACES)}"{spelled}"{draw(SPACES)}:{draw(SPACES)}{draw(strategy)}')
    return ",".join(written)


@st.composite
def records(draw: st.DrawFn) -> str:
    """A line that is a record, nearly one, or not at all."""
    type_ = draw(st.sampled_from([*CATALOG.nodes.values(), *CATALOG.edges.values()]))
    is_edge = isinstance(type_, EdgeType)
    parts = [f'"{"edge" if is_edge else "type"}"{draw(SPACES)}:{draw(SPACES)}"{type_.name}"']
    if is_edge:
        parts += [f'"{name}":{draw(scalars if rarely(draw) else strings)}' for name in ("from", "to")]
    data = draw(values) if rarely(draw) else "{" + draw(members(type_)) + "}"
    parts += [f'"data"{draw(SPACES)}:{draw(SPACES)}{data}']
    if rarely(draw):
        parts = draw(st.permutations(parts))
    if rarely(draw):
        parts.append(draw(st.sampled_from(['"type":"Port"', '"data":{}', '"x":1', '"id":null'])))
    if rarely(draw):
        parts.pop(draw(st.integers(0, len(parts) - 1)))
    line = "{" + f"{draw(SPACES)},{draw(SPACES)}".join(parts) + "}" + (draw(SPACES) if rarely(draw) else "")
    if rarely(draw):
        cut = draw(st.integers(0, len(line)))
        line = f"{line[:cut]}{draw(st.sampled_from(GARBAGE))}{line[cut + 1 :]}"
    return line.replace("\n", " ")


def outcome(lines: list[str]) -> tuple[Any, ...]:
    """What becomes of the last of the lines."""
    rejects: list[Reject] = []
    rows = rows_by_line(read(lines, on_reject=rejects.append))
    if rejects:
        assert len(rejects) == len(lines)
        found = rejects[-1]
        return ("refused", found.message.partition(": ")[2], found.rule, found.id, found.property, found.value)
    if len(lines) not in rows:
        return ("skipped",)
    key, row, explicit = rows[len(lines)]
    if not explicit and key in ("node:Ship", "node:Lane", "edge:Lane", "edge:HomedAt"):
        assert ULID.fullmatch(row.pop("id"))
    return (key, repr(row), explicit)


@settings(max_examples=200)
@given(records())
@example('{"type":"Port"}{"type":"Port"}')
@example('{"type":"Port","data":{"code":"A","depth":-0,"crew":-0,"opened":-0,"place":[0,-0,0]}}')
@example('{"type":"Port","data":{"code":"A"}}\x00{"type":"Port","data":{"code":"A"}}')
@example('{"type":"Ship","data":{"name":"x","name":null}}')
@example('{"type":"Ship","data":{"name":"x","crew":null,"crew":null}}')
@example('{"type":"Ship","data":{"name":"x"},"data":null}')
@example('{"type":"Ship","data":null,"data":{"name":"x"}}')
@example('{"edge":"Lane","from":"A","to":"B","data":{"nm":9007199254740993.0}}')
def test_the_fast_way_agrees_with_the_exact_one(line: str) -> None:
    assert outcome(many_of_it(line)) == outcome(alone(line))


@settings(max_examples=30)
@given(st.lists(records(), min_size=1, max_size=10), st.randoms(use_true_random=False))
def test_lines_do_not_influence_each_other(lines: list[str], random: Any) -> None:
    crowd = [port(code=f"c{n}", crew=n) for n in range(150)] + [lane(nm=n) for n in range(150)] + lines
    random.shuffle(crowd)
    found: list[Reject] = []
    rows = rows_by_line(read(crowd, on_reject=found.append))
    rejects = {reject.line: reject.message.partition(": ")[2] for reject in found}

    for number, line in enumerate(crowd, 1):
        if line not in lines:
            assert number in rows
            continue
        expected = outcome([line])
        if expected[0] == "refused":
            assert rejects[number] == expected[1]
        elif expected[0] != "skipped":
            key, row, explicit = rows[number]
            if not explicit and key in ("node:Ship", "node:Lane", "edge:Lane", "edge:HomedAt"):
                row.pop("id")
            assert (key, repr(row), explicit) == expected


WELL_FORMED = {
    "Port": [
        port(depth=1.5, draught=0.1, crew=1, tonnes=-1, berths=1, serial=2**64 - 1, open=True, kind="river"),
        port(opened="2024-01-01", seen="2024-01-01T00:00:00Z", tags=["a"], sizes=[1], days=["2024-01-01"], place=[1, 2, 3]),
        port(photo="base64:aGk=", depth=None, tags=None, place=None),
        port(),
    ],
    "Ship": [node("Ship", name="x", crew=1), node("Ship", name="x", id="y")],
    "Berth": [node("Berth", port="é", number=1, id='["1","é"]')],
    "Tide": [node("Tide", at=1, height=0.5, on=1, high=True), node("Tide", at=2, height=1e10, on=3, high=False)],
}


@pytest.mark.parametrize("name", WELL_FORMED)
def test_well_formed_records_need_no_second_look(name: str) -> None:
    texts = [f"{line}\n".encode() for line in WELL_FORMED[name]] * 100
    reader = BlockParser(Layout(CATALOG.nodes[name]), ReaderLimits())

    result = reader.read(Lines(pa.array(texts, pa.binary()), np.arange(1, len(texts) + 1)))

    assert [len(part.lines) for part in result.parts] == [len(texts)]
    assert result.doubtful == []


def test_few_records_go_the_exact_way_because_of_a_faulty_one() -> None:
    texts = [f"{port(code=f'p{number}')}\n".encode() for number in range(10_000)]
    texts[5000] = b'{"type": "Port", "data": {"code": 5}}\n'
    reader = BlockParser(Layout(CATALOG.nodes["Port"]), ReaderLimits())

    result = reader.read(Lines(pa.array(texts, pa.binary()), np.arange(10_000)))

    doubtful = [number for lines in result.doubtful for number in lines.numbers.tolist()]
    assert 5000 in doubtful
    assert len(doubtful) <= 64
    assert sum(len(part.lines) for part in result.parts) == 10_000 - len(doubtful)


def test_whole_numbers_beyond_the_floats_stay_exact() -> None:
    lines = [node("Ship", name="x", crew=1.0)] * 100 + [port(tonnes=2.0), port(tonnes=9007199254740993)] * 100
    rows = rows_by_line(read(lines))

    assert math.fsum(row["tonnes"] == 9007199254740993 for key, row, _ in rows.values() if key == "node:Port") == 100


@settings(max_examples=200)
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"\n", b"\r\n", b'{"type":"Port"', b"}", b'"', b"//"]))))
def test_whatever_the_bytes_the_answer_is_a_reject(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    rejects: list[Reject] = []

    assert read(data, on_reject=rejects.append, batch_bytes=16) == []
    assert {reject.rule for reject in rejects} <= {"json", "record", "required"}
    assert all(1 <= (reject.line or 0) <= data.count(b"\n") + 1 for reject in rejects)
