"""Records that are as they should be: what becomes of them, and where they may come from."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph_compiler import compile_schema
from omnigraph_sql.errors import BadRequest, ResourceLimit
from omnigraph_sql.storage.columns import table_schema
from omnigraph_sql.writes.readers import ReaderLimits, Reject, read_records
from tests.unit.reading.graphs import (
    CATALOG,
    both_ways,
    lane,
    node,
    port,
    read,
    read_one,
    rejects_of,
    rows_by_line,
)

Surround = Callable[[str], list[str]]
UTC = datetime.UTC
ULID = re.compile("[0-9A-HJKMNP-TV-Z]{26}")


def last(surround: Surround, line: str) -> tuple[str, dict[str, Any], bool]:
    lines = surround(line)
    return rows_by_line(read(lines))[len(lines)]


VALUES = [
    ("kind", "river", "river"),
    ("depth", 1.5, 1.5),
    ("depth", 3, 3.0),
    ("depth", 1e300, 1e300),
    ("draught", 0.1, 0.10000000149011612),
    ("draught", 16777217, 16777216.0),
    ("crew", 2**31 - 1, 2**31 - 1),
    ("crew", -(2**31), -(2**31)),
    ("crew", 7.0, 7),
    ("crew", 1e3, 1000),
    ("tonnes", 2**63 - 1, 2**63 - 1),
    ("tonnes", 9007199254740993, 9007199254740993),
    ("berths", 2**32 - 1, 2**32 - 1),
    ("serial", 2**64 - 1, 2**64 - 1),
    ("open", False, False),
    ("opened", "2024-02-29", datetime.date(2024, 2, 29)),
    ("opened", 10, datetime.date(1970, 1, 11)),
    ("opened", -1, datetime.date(1969, 12, 31)),
    ("opened", "0001-01-01", datetime.date(1, 1, 1)),
    ("seen", "2024-05-01T12:00:00Z", datetime.datetime(2024, 5, 1, 12, tzinfo=UTC)),
    ("seen", "2024-05-01T12:00:00.5Z", datetime.datetime(2024, 5, 1, 12, 0, 0, 500_000, tzinfo=UTC)),
    ("seen", "2024-05-01t12:00:00.123999+02:00", datetime.datetime(2024, 5, 1, 10, 0, 0, 123_000, tzinfo=UTC)),
    ("seen", "1969-12-31T23:59:59.9999Z", datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
    ("seen", -1, datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
    ("tags", [], []),
    ("tags", ["a", ""], ["a", ""]),
    ("sizes", [1, 2.0], [1, 2]),
    ("days", ["1970-01-02", 2], [datetime.date(1970, 1, 2), datetime.date(1970, 1, 3)]),
    ("place", [1, 2.5, -0.1], [1.0, 2.5, -0.10000000149011612]),
    ("photo", "base64:", b""),
    ("photo", "base64:aGk=", b"hi"),
    ("pilots", None, None),
    ("depth", None, None),
    ("tags", None, None),
]


@both_ways
@pytest.mark.parametrize(("name", "given", "stored"), VALUES)
def test_a_value_is_stored(surround: Surround, name: str, given: object, stored: object) -> None:
    key, row, _ = last(surround, port(**{name: given}))

    assert key == "node:Port"
    assert (row[name]["data"] if name == "photo" else row[name]) == stored


@both_ways
def test_an_absent_member_takes_its_default_or_null(surround: Surround) -> None:
    _, row, _ = last(surround, port())

    assert (row["kind"], row["pilots"], row["depth"]) == ("sea", 2, None)


@both_ways
def test_data_may_be_left_out(surround: Surround) -> None:
    key, row, explicit = last(surround, '{"edge": "Lane", "from": "A", "to": "B"}')

    assert (key, row["src"], row["dst"], row["since"], explicit) == ("edge:Lane", "A", "B", datetime.date(2000, 1, 1), False)
    assert ULID.fullmatch(row["id"])


@both_ways
def test_edge_types_match_ignoring_case(surround: Surround) -> None:
    assert last(surround, '{"edge": "homedAT", "from": "s", "to": "A"}')[0] == "edge:HomedAt"


@both_ways
@pytest.mark.parametrize("line", [node("Ship", name="x", id="given"), lane(id="given")])
def test_an_id_may_be_given(surround: Surround, line: str) -> None:
    _, row, explicit = last(surround, line)

    assert (row["id"], explicit) == ("given", True)


@both_ways
@pytest.mark.parametrize("given", [{}, {"id": '["3","a\\"b"]'}])
def test_an_id_follows_from_the_key(surround: Surround, given: dict[str, str]) -> None:
    _, row, explicit = last(surround, node("Berth", port='a"b', number=3, **given))

    assert (row["id"], explicit) == ('["3","a\\"b"]', False)


@both_ways
@pytest.mark.parametrize(
    "line",
    [
        '{"data": {"code": "A"}, "type": "Port"}',
        '  { "type" : "Port" ,\t"data" : { "code" : "A" } }  ',
        '{"\\u0074ype": "Port", "data": {"c\\u006fde": "\\u0041"}}',
        '{"type": "\\u0050ort", "data": {"code": "A"}}',
        '{"type":"Port","data":{"code":"A"}}\r',
    ],
)
def test_spelling_does_not_matter(surround: Surround, line: str) -> None:
    key, row, _ = last(surround, line)

    assert (key, row["code"]) == ("node:Port", "A")


@both_ways
def test_text_of_any_script_survives(surround: Surround) -> None:
    text = 'Øresund "東京"\n\\ 😀\x00\x7f'

    assert last(surround, port(code=text))[1]["id"] == text
    assert last(surround, json.dumps({"type": "Port", "data": {"code": text}}, ensure_ascii=False))[1]["code"] == text


def test_a_batch_has_the_columns_of_its_table() -> None:
    (batch,) = read([port()])

    assert batch.rows.schema.equals(table_schema(CATALOG.nodes["Port"]), check_metadata=True)
    assert batch.lines.type == pa.int64()
    assert batch.explicit_id.type == pa.bool_()


def test_a_block_gives_one_batch_per_type_in_the_order_of_the_lines() -> None:
    lines = [
        node("Ship", name=f"s{n}", crew=[n, 1.0 * n, None][n % 3]) if n % 2 else lane(id=f"e{n % 7}", nm=n)
        for n in range(2000)
    ]
    batches = read(lines)

    assert sorted(batch.table_key for batch in batches) == ["edge:Lane", "node:Ship"]
    for batch in batches:
        numbers = batch.lines.to_pylist()
        assert numbers == sorted(numbers)
        if batch.table_key == "node:Ship":
            assert [int(name[1:]) + 1 for name in batch.rows["name"].to_pylist()] == numbers
            assert batch.rows["id"].to_pylist() == sorted(batch.rows["id"].to_pylist())


def test_blank_lines_and_comments_are_skipped_but_counted() -> None:
    lines = ["// a comment", "", port(code="A"), "   \t", "\r", '//{"type": "Port"}', port(code="B")]

    assert list(rows_by_line(read(lines))) == [3, 7]


def test_no_lines_give_no_batches() -> None:
    assert read("") == read(b"") == read([]) == read("\n\n// nothing\n") == []


TEXT = "\n".join([port(code="A"), "", port(code="B"), lane(id="e")])


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("batch_bytes", [1, 7, 100, 1 << 20])
def test_sources_are_equivalent(tmp_path: Path, start: str, end: str, batch_bytes: int) -> None:
    text = start + (TEXT.replace("\n", "\r\n") if end == "\r\n" else TEXT) + end
    data = text.encode()
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data[:50]) + gzip.compress(data[50:]))
    sources: list[Any] = [text, data, plain, packed, io.BytesIO(data), text.split("\n"), data.splitlines(keepends=True)]
    sources += [iter(text.splitlines()), io.StringIO(text), bytearray(data), memoryview(data)]

    expected = rows_by_line(read(text))
    assert list(expected) == [1, 3, 4]
    for source in sources:
        assert rows_by_line(read(source, batch_bytes=batch_bytes)) == expected


def test_the_source_of_a_reject_is_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("x\n")

    assert [reject.source for reject in rejects_of(path)] == [str(path)]
    assert [reject.source for reject in rejects_of("x")] == [None]


def test_a_truncated_gzip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:-12])

    with pytest.raises(BadRequest, match="truncated"):
        read(path)


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    data = bytearray(gzip.compress(TEXT.encode()))
    data[-6] ^= 0xFF
    path.write_bytes(data)

    with pytest.raises(BadRequest, match="cannot read"):
        read(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"cannot read .*nothing"):
        read(tmp_path / "nothing.jsonl")


@pytest.mark.parametrize("source", [5, None, [5], [{"type": "Port"}]])
def test_what_is_no_source_is_refused(source: object) -> None:
    with pytest.raises(BadRequest, match="records"):
        read(source)


@pytest.mark.parametrize("batch_bytes", [50, 1 << 20])
def test_a_line_has_a_ceiling(batch_bytes: int) -> None:
    line = port(code="x" * 100)
    limits = ReaderLimits(line_bytes=len(line))
    text = f"{line}\r\n{line} \n{line}\n"

    assert len(rows_by_line(read(f"{line}\r\n{line}", limits=limits, batch_bytes=batch_bytes))) == 2
    with pytest.raises(ResourceLimit, match=r"^line 2: ") as caught:
        read(text, limits=limits, batch_bytes=batch_bytes)
    assert (caught.value.resource, caught.value.limit, caught.value.actual) == ("load_line_bytes", len(line), len(line) + 1)


@pytest.mark.parametrize("batch_bytes", [16, 1000, 1 << 20])
def test_a_line_without_end_is_not_gathered(batch_bytes: int) -> None:
    limits = ReaderLimits(line_bytes=1000)
    text = f"{port(code='A')}\n{'x' * 50_000}\n{port(code='B')}\n{'y' * 5000}"
    rejects: list[Reject] = []
    found = rows_by_line(read(text, limits=limits, batch_bytes=batch_bytes, on_reject=rejects.append))

    assert [(reject.line, reject.rule) for reject in rejects] == [(2, "limit"), (4, "limit")]
    assert {line: row["code"] for line, (_, row, _) in found.items()} == {1: "A", 3: "B"}


def test_structural_characters_have_a_ceiling() -> None:
    def line(count: int) -> str:
        """A line with that many structural characters, and many more inside a string."""
        return port(code="{[,:" * 1000, sizes=[1] * (count - 11))

    limit = 131_072
    assert len(rows_by_line(read([line(limit)]))) == 1
    with pytest.raises(ResourceLimit) as caught:
        read([line(limit + 1)])
    assert (caught.value.resource, caught.value.limit, caught.value.actual) == (
        "load_line_structural_characters",
        limit,
        limit + 1,
    )


@both_ways
def test_a_blob_has_a_ceiling(surround: Surround) -> None:
    limits = ReaderLimits(blob_bytes=4)

    read(surround(port(photo="base64:AAAAAA==")), limits=limits)
    with pytest.raises(ResourceLimit, match=r"Port.photo.*5 bytes") as caught:
        read(surround(port(photo="base64:AAAAAAA=")), limits=limits)
    assert (caught.value.resource, caught.value.limit, caught.value.actual) == ("blob_bytes", 4, 5)


@pytest.mark.parametrize("opening", ["", " "], ids=["fast", "exact"])
def test_vectors_that_are_null_do_not_make_batches_long(opening: str) -> None:
    """They take room in a batch, and none in a line."""
    catalog = compile_schema("node Note { text: String @key  v: Vector(256)? }  node Plain { text: String @key }")
    lines = [f'{opening}{{"type":"{name}","data":{{"text":"{n}"}}}}' for n in range(1000) for name in ("Note", "Plain")]
    batches = list(read_records("\n".join(lines), catalog, batch_bytes=100_000))

    assert max(batch.rows.nbytes for batch in batches if batch.table_key == "node:Note") <= 120_000
    assert sorted(rows_by_line(batches)) == list(range(1, 2001))
    assert [line for batch in batches if batch.table_key == "node:Note" for line in batch.lines.to_pylist()] == [
        *range(1, 2001, 2)
    ]


def test_one_record_can_be_read() -> None:
    assert read_one(node("Ship", name="x"))["name"] == "x"
