"""Records that are refused: by what error, in what words, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omnigraph_sql.errors import BadRequest, OmnigraphError, ValidationFailed
from tests.unit.reading.graphs import both_ways, in_a_crowd, lane, node, port, read, rejects_of, rows_by_line

Surround = Callable[[str], list[str]]

SHAPES = [
    # not one JSON value on the line
    ("{", ["invalid JSON"]),
    ('{"type": "Port"} {"type": "Port"}', ["invalid JSON"]),
    ('{"type": "Port", "data": {"code": "A"}}{"type": "Port", "data": {"code": "A"}}', ["invalid JSON"]),
    ('{"type": "Port", "data": {"code": "A"}} x', ["invalid JSON"]),
    ('{"type": "Port", "data": {"code": "A"}},', ["invalid JSON"]),
    ('{"type": "Port", "data": {"code": "A",}}', ["invalid JSON"]),
    ("{'type': 'Port'}", ["invalid JSON"]),
    ('{"type": "Port", "data": {"code": "A", "depth": NaN}}', ["invalid JSON", "NaN"]),
    ('{"type": "Port", "data": {"code": "A", "depth": -Infinity}}', ["invalid JSON", "Infinity"]),
    ('{"type": "Port", "data": {"code": "A", "depth": 01}}', ["invalid JSON"]),
    ('{"type": "Port", "data": {"code": "A", "depth": .5}}', ["invalid JSON"]),
    ('{"type": "Port", "data": {"code": "a\tb"}}', ["invalid JSON"]),
    ('{"type": "Port", "data": {"code": "\\ud800"}}', ["invalid JSON", "surrogate"]),
    ('{"type": "Port", "data": {"code": "\\udc00\\ud800"}}', ["invalid JSON", "surrogate"]),
    ('{"type": "Port", "data": {"\\ud800": 1}}', ["invalid JSON", "surrogate"]),
    (" // no comment", ["invalid JSON"]),
    ("[" * 100_000, ["invalid JSON"]),
    # duplicate members
    ('{"type": "Port", "type": "Port"}', ["duplicate JSON member", "type"]),
    ('{"type": "Port", "data": {"code": "A"}, "data": {"code": "A"}}', ["duplicate JSON member", "data"]),
    ('{"type": "Port", "data": {"code": "A", "crew": null, "crew": 1}}', ["duplicate JSON member", "crew"]),
    ('{"type": "Port", "data": {"code": "A", "cr\\u0065w": 1, "crew": 1}}', ["duplicate JSON member", "crew"]),
    ('{"type": "Port", "data": {"code": {"a": 1, "a": 2}}}', ["duplicate JSON member", "a"]),
    # not an object
    ("[1]", ["JSON object", "array"]),
    ("null", ["JSON object", "null"]),
    ('"Port"', ["JSON object", "string"]),
    # neither or both
    ("{}", ["exactly one of", "type", "edge"]),
    ('{"data": {}}', ["exactly one of"]),
    ('{"type": "Port", "edge": "Lane"}', ["exactly one of"]),
    # other top-level members
    ('{"type": "Port", "data": {"code": "A"}, "extra": 1}', ["unknown", "extra"]),
    ('{"type": "Port", "data": {"code": "A"}, "from": "A"}', ["unknown", "from", "reserved"]),
    ('{"type": "Port", "data": {"code": "A"}, "id": "A"}', ["unknown", "id", "reserved"]),
    ('{"type": "Port", "data": {"code": "A"}, "_rowid": 1}', ["unknown", "_rowid", "reserved"]),
    ('{"edge": "Lane", "from": "A", "to": "B", "src": "A"}', ["unknown", "src", "reserved"]),
    # unknown types
    ('{"type": "Prot"}', ["unknown node type", "Prot", "did you mean `Port`?"]),
    ('{"type": "port"}', ["unknown node type", "port", "did you mean `Port`?"]),
    ('{"type": "HomedAt"}', ["unknown node type", "HomedAt", "is an edge type"]),
    ('{"edge": "Lanes", "from": "A", "to": "B"}', ["unknown edge type", "Lanes", "did you mean `Lane`?"]),
    ('{"edge": "Port", "from": "A", "to": "B"}', ["unknown edge type", "Port", "is a node type"]),
    # members of the wrong type, or missing
    ('{"type": 1}', ["`type`", "string", "number"]),
    ('{"type": null}', ["`type`", "null"]),
    ('{"edge": true, "from": "A", "to": "B"}', ["`edge`", "boolean"]),
    ('{"edge": "Lane", "to": "B"}', ["`from`", "missing"]),
    ('{"edge": "Lane", "from": "A"}', ["`to`", "missing"]),
    ('{"edge": "Lane", "from": null, "to": "B"}', ["`from`", "null"]),
    ('{"edge": "Lane", "from": "A", "to": 5}', ["`to`", "number"]),
    ('{"type": "Port", "data": null}', ["`data`", "null"]),
    ('{"edge": "Lane", "from": "A", "to": "B", "d\\u0061ta": null}', ["`data`", "null"]),
    ('{"type": "Port", "data": []}', ["`data`", "array"]),
    # undeclared members of data
    (port(cod="A"), ["unknown", "cod", "node:Port", "did you mean `code`?"]),
    (lane(nmm=1), ["unknown", "nmm", "edge:Lane"]),
    (port(_distance=1), ["unknown", "_distance", "reserved"]),
    (lane(src="A"), ["unknown", "src", "reserved"]),
    (lane(to="A"), ["unknown", "to", "reserved"]),
    # ids
    (port(id=5), ["`id`", "string", "number"]),
    (port(id=None), ["`id`", "null"]),
    (lane(id=None), ["`id`", "null"]),
    ('{"edge": "Lane", "from": "A", "to": "B", "data": {"\\u0069d": null}}', ["`id`", "null"]),
    (port(id="B"), ['"B"', "does not match", '"A"']),
    (node("Berth", port="n", number=1, id='["n","1"]'), ["does not match", '[\\"1\\",\\"n\\"]', '[\\"n\\",\\"1\\"]']),
    # external references
    (port(photo="s3://bucket/photo"), ["Port.photo", "external blob references are not allowed", "s3://bucket/photo"]),
]

VALUES = [
    (port(code=1), "type", ["Port.code", "expects", "1"]),
    (port(kind=True), "type", ["Port.kind", "expects", "true"]),
    (port(depth="1"), "type", ["Port.depth", "expects", '"1"']),
    (port(depth=True), "type", ["Port.depth", "expects"]),
    ('{"type": "Port", "data": {"code": "A", "depth": 1e400}}', "type", ["Port.depth", "Float64 range"]),
    ('{"type": "Port", "data": {"code": "A", "depth": %s}}' % ("9" * 5000), "type", ["Port.depth", "Float64 range"]),
    (port(draught=3.5e38), "type", ["Port.draught", "Float32 range"]),
    (port(crew=2**31), "type", ["Port.crew", "exceeds Int32 range", "2147483648"]),
    (port(crew=1.5), "type", ["Port.crew", "expects", "1.5"]),
    (port(crew="1"), "type", ["Port.crew", "expects"]),
    ('{"type": "Port", "data": {"code": "A", "crew": 1e400}}', "type", ["Port.crew", "Int32 range"]),
    (port(tonnes=2**63), "type", ["Port.tonnes", "exceeds Int64 range"]),
    (port(berths=-1), "type", ["Port.berths", "exceeds UInt32 range"]),
    (port(serial=2**64), "type", ["Port.serial", "exceeds UInt64 range"]),
    (port(serial=2.0**64), "type", ["Port.serial", "exceeds UInt64 range"]),
    (port(open=1), "type", ["Port.open", "expects true or false"]),
    (port(opened="2023-02-29"), "type", ["Port.opened", "expects", "2023-02-29"]),
    (port(opened="20240101"), "type", ["Port.opened", "expects"]),
    (port(opened="0000-01-01"), "type", ["Port.opened", "expects"]),
    (port(opened=1.5), "type", ["Port.opened", "expects"]),
    (port(opened=10**9), "type", ["Port.opened", "range"]),
    (port(seen="2024-05-01"), "type", ["Port.seen", "expects"]),
    (port(seen="2024-05-01T25:00:00Z"), "type", ["Port.seen", "expects"]),
    (port(seen="0001-01-01T00:00:00+12:00"), "type", ["Port.seen", "range"]),
    (port(seen=10**18), "type", ["Port.seen", "range"]),
    (port(tags="a"), "type", ["Port.tags", "expects an array"]),
    (port(tags=["a", None]), "type", ["Port.tags", "null"]),
    (port(tags=["a", 1]), "type", ["Port.tags", "expects a string", "1"]),
    (port(sizes=[1, 2**31]), "type", ["Port.sizes", "Int32 range"]),
    (port(days=["x"]), "type", ["Port.days", "expects a date"]),
    (port(tags=[["a"]]), "type", ["Port.tags", "expects"]),
    (port(place=[1, 2]), "type", ["Port.place", "3 dimensions", "2"]),
    (port(place=[]), "type", ["Port.place", "3 dimensions", "0"]),
    (port(place=[1, 2, "3"]), "type", ["Port.place", "numeric"]),
    (port(place=[1, 2, None]), "type", ["Port.place", "numeric"]),
    (port(place=[1, 2, 1e39]), "type", ["Port.place", "Float32 range"]),
    (port(place="x"), "type", ["Port.place", "expects"]),
    (port(photo=5), "type", ["Port.photo", "expects"]),
    (port(photo="base64:a"), "type", ["Port.photo", "base64"]),
    (port(photo="base64:é==="), "type", ["Port.photo", "base64"]),
    (port(code=None), "required", ["Port.code", "null"]),
    (port(kind=None), "required", ["Port.kind", "null"]),
    (lane(since=None), "required", ["Lane.since", "null"]),
    (node("Ship"), "required", ["Ship.name", "null"]),
    ('{"type": "Ship"}', "required", ["Ship.name", "null"]),
    (node("Berth", port="n"), "required", ["Berth.number", "null"]),
]


def shortened(value: object) -> str | None:
    return value[:60] if isinstance(value, str) else None


def refused(lines: list[str], number: int) -> OmnigraphError:
    with pytest.raises(OmnigraphError) as caught:
        read(lines)
    assert caught.value.message.startswith(f"line {number}: ")
    return caught.value


def first_refused(surround: Surround, line: str) -> OmnigraphError:
    lines = surround(line)
    return refused(lines, lines.index(line) + 1)


@both_ways
@pytest.mark.parametrize(("line", "fragments"), SHAPES, ids=shortened)
def test_a_record_of_another_shape_is_a_bad_request(surround: Surround, line: str, fragments: list[str]) -> None:
    error = first_refused(surround, line)

    assert isinstance(error, BadRequest)
    for fragment in fragments:
        assert fragment in str(error)


@both_ways
@pytest.mark.parametrize(("line", "rule", "fragments"), VALUES, ids=shortened)
def test_a_value_that_does_not_fit_fails_validation(surround: Surround, line: str, rule: str, fragments: list[str]) -> None:
    error = first_refused(surround, line)

    assert isinstance(error, ValidationFailed)
    assert error.rule == rule
    assert error.table_key == f"{'edge' if 'edge' in line[:8] else 'node'}:{fragments[0].split('.')[0]}"
    for fragment in fragments:
        assert fragment in str(error)


@pytest.mark.parametrize("data", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xc3"])
@pytest.mark.parametrize("crowd", [0, 200])
def test_bytes_that_are_not_utf_8_are_refused(data: bytes, crowd: int) -> None:
    lines = [b'{"type": "Port", "data": {"code": "A"}}'] * crowd + [b'{"type": "Port", "data": {"code": "' + data + b'"}}']

    with pytest.raises(BadRequest, match=rf"^line {crowd + 1}: invalid JSON: .*UTF-8"):
        read(lines)


def test_a_text_with_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"^line 1: invalid JSON"):
        read('{"type": "Port", "data": {"code": "\ud800"}}')


def test_the_first_faulty_line_is_the_one_that_is_told() -> None:
    lines = [*in_a_crowd(port(code="Z")), lane(nm="x"), port(crew="x"), node("Ship"), "x", *in_a_crowd(port(code="Z"))]

    assert "Lane.nm" in refused(lines, len(in_a_crowd("")) + 1).message


def test_the_id_is_told_where_it_is_known() -> None:
    cases = {port(code="K", crew="x"): "K", lane(id="e", nm="x"): "e", lane(nm="x"): None, port(code=1): None}
    cases[node("Berth", port="n", number="x")] = None

    for line, id_ in cases.items():
        error = refused([line], 1)
        assert isinstance(error, ValidationFailed)
        assert error.id == id_


def test_a_key_of_another_enumeration_value_is_left_to_validation() -> None:
    assert rows_by_line(read([port(kind="lake")]))[1][1]["kind"] == "lake"


@pytest.mark.parametrize("crowd", [0, 200, 5000])
def test_rejects_are_reported_and_the_others_kept(crowd: int) -> None:
    good = [port(code=f"p{number}") for number in range(crowd)]
    lines = [*good, "x", port(crew="x"), *good, '{"edge": "Lane", "to": "B"}', port(code="q", id="r"), port(code="Z")]
    rejects = rejects_of(lines)

    assert [(reject.line, reject.rule) for reject in rejects] == [
        (crowd + 1, "json"),
        (crowd + 2, "type"),
        (2 * crowd + 3, "required"),
        (2 * crowd + 4, "id"),
    ]
    assert rejects[1].to_dict() == {
        "line": crowd + 2,
        "source": None,
        "type": "Port",
        "table_key": "node:Port",
        "id": "A",
        "rule": "type",
        "property": "crew",
        "value": '"x"',
        "message": f'line {crowd + 2}: `Port.crew` expects a whole number, found "x"',
    }
    found = rows_by_line(read(lines, on_reject=lambda _: None))
    assert len(found) == 2 * crowd + 1
    assert list(found) == sorted(found)
    assert found[len(lines)][1]["id"] == "Z"


def test_a_message_does_not_repeat_a_long_value() -> None:
    (reject,) = rejects_of([port(crew="x" * 10_000)])

    assert len(reject.message) < 200
    assert reject.value is not None
    assert len(reject.value) == 200
