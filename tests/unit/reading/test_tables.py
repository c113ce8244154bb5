"""Tables: what their columns may be, how values are converted, and what is refused."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from omnigraph_compiler import compile_schema
from omnigraph_sql.errors import BadRequest, OmnigraphError, ResourceLimit, ValidationFailed
from omnigraph_sql.storage.columns import table_schema
from omnigraph_sql.writes.readers import ReaderLimits, Reject, TableBatch, read_tables
from tests.unit.reading.graphs import CATALOG

UTC = datetime.UTC


def load(tables: dict[str, Any], **options: Any) -> list[TableBatch]:
    batches = list(read_tables(tables, CATALOG, **options))
    for batch in batches:
        batch.rows.validate(full=True)
        assert len(batch.lines) == len(batch.explicit_id) == batch.rows.num_rows
    return batches


def ports(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Table:
    codes = pa.array([f"p{number}" for number in range(len(column))])
    return pa.table({"code": codes, name: column} if name != "code" else {"code": column})


def column_of(name: str, column: Any, **options: Any) -> list[Any]:
    (batch,) = load({"Port": ports(column, name)}, **options)
    values = batch.rows[name]
    return [None if each is None else each["data"] for each in values.to_pylist()] if name == "photo" else values.to_pylist()


def label(value: object) -> str | None:
    return str(value.type) if isinstance(value, pa.Array) else value if isinstance(value, str) else None


def at(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts).replace(tzinfo=UTC)  # type: ignore[arg-type]


CONVERSIONS = [
    ("kind", pa.array(["sea", "river"], pa.large_string()), ["sea", "river"]),
    ("kind", pa.array(["sea", "river"], pa.string_view()), ["sea", "river"]),
    ("kind", pa.array(["sea", "river", "sea"]).dictionary_encode(), ["sea", "river", "sea"]),
    ("kind", pa.RunEndEncodedArray.from_arrays([2, 3], ["sea", "river"]), ["sea", "sea", "river"]),
    ("depth", pa.array([1, None], pa.int8()), [1.0, None]),
    ("depth", pa.array([1.5], pa.float16()), [1.5]),
    ("depth", pa.array([Decimal("0.10"), Decimal("12.34")]), [0.1, 12.34]),
    ("depth", pa.array([2**53 + 1], pa.int64()), [2.0**53]),
    ("draught", pa.array([0.1, 3.4028235e38], pa.float64()), [0.10000000149011612, 3.4028234663852886e38]),
    ("crew", pa.array([1.0, -7.0, None], pa.float64()), [1, -7, None]),
    ("crew", pa.array([1, 2], pa.uint64()), [1, 2]),
    ("crew", pa.array([Decimal("5.00"), None], pa.decimal128(10, 2)), [5, None]),
    ("crew", pa.nulls(2), [None, None]),
    ("crew", pa.array([None, None], pa.string()), [None, None]),
    ("serial", pa.array([Decimal(2**64 - 1)], pa.decimal128(38, 0)), [2**64 - 1]),
    ("tonnes", pa.array([-(2.0**63), 2.0**62]), [-(2**63), 2**62]),
    ("open", pa.array([True, None]), [True, None]),
    ("opened", pa.array([10], pa.date32()), [datetime.date(1970, 1, 11)]),
    ("opened", pa.array([datetime.date(2024, 1, 1)], pa.date64()), [datetime.date(2024, 1, 1)]),
    ("opened", pa.array(["2024-01-01", None]), [datetime.date(2024, 1, 1), None]),
    ("opened", pa.array([-1], pa.int16()), [datetime.date(1969, 12, 31)]),
    ("opened", pa.array([at(2024, 1, 1), None], pa.timestamp("ns")), [datetime.date(2024, 1, 1), None]),
    ("opened", pa.array([at(1960, 1, 1)], pa.timestamp("s", "Europe/Oslo")), [datetime.date(1960, 1, 1)]),
    ("seen", pa.array([-1], pa.timestamp("ns")), [at(1969, 12, 31, 23, 59, 59, 999_000)]),
    ("seen", pa.array([1_999, None], pa.timestamp("us", "UTC")), [at(1970, 1, 1, 0, 0, 0, 1_000), None]),
    ("seen", pa.array([1], pa.timestamp("s", "Asia/Tokyo")), [at(1970, 1, 1, 0, 0, 1)]),
    ("seen", pa.array([1, None], pa.date32()), [at(1970, 1, 2), None]),
    ("seen", pa.array([1500], pa.int64()), [at(1970, 1, 1, 0, 0, 1, 500_000)]),
    (
        "seen",
        pa.array(["2024-05-01T12:00:00Z", "2024-05-01 12:00:00.5+02:00"]),
        [at(2024, 5, 1, 12), at(2024, 5, 1, 10, 0, 0, 500_000)],
    ),
    ("tags", pa.array([["a"], None, []], pa.large_list(pa.large_string())), [["a"], None, []]),
    ("tags", pa.array([["a"], None, []], pa.list_view(pa.string_view())), [["a"], None, []]),
    ("sizes", pa.array([[1.0, 2.0], [3.0, 4.0], None], pa.list_(pa.float64(), 2)), [[1, 2], [3, 4], None]),
    ("days", pa.array([["1970-01-02"]]), [[datetime.date(1970, 1, 2)]]),
    ("place", pa.array([[1.0, 2.0, 3.0], None], pa.list_(pa.float64())), [[1.0, 2.0, 3.0], None]),
    ("place", pa.array([[1, 2, 3], None, [4, 5, 6]], pa.list_(pa.int32(), 3)), [[1.0, 2.0, 3.0], None, [4.0, 5.0, 6.0]]),
    ("place", pa.array([[1.0, 2.0, 3.0]] * 3, pa.list_(pa.float32(), 3))[1:], [[1.0, 2.0, 3.0]] * 2),
    ("photo", pa.array([b"hi", None], pa.binary()), [b"hi", None]),
    ("photo", pa.array([b"hi"], pa.binary_view()), [b"hi"]),
    ("photo", pa.array([b"hi"], pa.binary(2)), [b"hi"]),
    ("photo", pa.array(["base64:aGk=", None]), [b"hi", None]),
]


@pytest.mark.parametrize(("name", "column", "stored"), CONVERSIONS, ids=label)
def test_a_column_is_converted(name: str, column: pa.Array, stored: list[object]) -> None:
    assert column_of(name, column) == stored


@pytest.mark.parametrize(("name", "column", "stored"), CONVERSIONS, ids=label)
def test_a_column_in_pieces_is_converted_alike(name: str, column: pa.Array, stored: list[object]) -> None:
    pieces = pa.chunked_array([column[:1], column[1:], column[:0]])

    assert column_of(name, pieces) == stored


MISFITS = [
    ("kind", pa.array([1]), ["Port.kind", "expects a string", "int64"]),
    ("code", pa.array([1]), ["Port.code", "expects a string"]),
    ("crew", pa.array(["1"]), ["Port.crew", "expects a whole number", "string"]),
    ("crew", pa.array([True]), ["Port.crew", "expects a whole number", "bool"]),
    ("depth", pa.array(["1"]), ["Port.depth", "expects a number"]),
    ("depth", pa.array([True]), ["Port.depth", "expects a number"]),
    ("open", pa.array([1]), ["Port.open", "expects true or false"]),
    ("opened", pa.array([1.0]), ["Port.opened", "expects a date"]),
    ("seen", pa.array([1.0]), ["Port.seen", "expects an instant"]),
    ("tags", pa.array(["a"]), ["Port.tags", "expects an array"]),
    ("sizes", pa.array([["1"]]), ["Port.sizes", "expects a whole number"]),
    ("place", pa.array([1.0]), ["Port.place", "expects an array of 3 numbers"]),
    ("place", pa.array([["1", "2", "3"]]), ["Port.place", "numeric"]),
    ("photo", pa.array([1]), ["Port.photo", "expects bytes"]),
]


@pytest.mark.parametrize(("name", "column", "fragments"), MISFITS, ids=label)
def test_a_column_of_another_type_is_refused_as_a_whole(name: str, column: pa.Array, fragments: list[str]) -> None:
    rejects: list[Reject] = []
    with pytest.raises(ValidationFailed) as caught:
        load({"Port": ports(column, name)}, on_reject=rejects.append)

    assert (caught.value.table_key, caught.value.rule, rejects) == ("node:Port", "type", [])
    for fragment in fragments:
        assert fragment in caught.value.message


FAULTS = [
    ("depth", pa.array([1.0, float("nan")]), "type", ["Port.depth", "finite", "NaN"]),
    ("depth", pa.array([1.0, float("inf")]), "type", ["Port.depth", "finite"]),
    ("depth", pa.array([Decimal(1), Decimal(10**20 + 1)]), "type", ["Port.depth", "without loss"]),
    ("draught", pa.array([1.0, 1e39]), "type", ["Port.draught", "Float32 range"]),
    ("draught", pa.array([Decimal("1.5"), Decimal("12345678.9")]), "type", ["Port.draught", "without loss"]),
    ("crew", pa.array([1.0, 1.5]), "type", ["Port.crew", "expects a whole number", "1.5"]),
    ("crew", pa.array([1.0, float("nan")]), "type", ["Port.crew", "expects a whole number"]),
    ("crew", pa.array([1.0, 2.0**31]), "type", ["Port.crew", "exceeds Int32 range"]),
    ("crew", pa.array([1.0, float("-inf")]), "type", ["Port.crew", "exceeds Int32 range"]),
    ("crew", pa.array([1, 2**31]), "type", ["Port.crew", "exceeds Int32 range", "2147483648"]),
    ("crew", pa.array([Decimal("1.0"), Decimal("1.5")]), "type", ["Port.crew", "expects a whole number", "1.5"]),
    ("berths", pa.array([1, -1]), "type", ["Port.berths", "exceeds UInt32 range"]),
    ("serial", pa.array([1, -1], pa.int8()), "type", ["Port.serial", "exceeds UInt64 range"]),
    ("serial", pa.array([1.0, 2.0**64]), "type", ["Port.serial", "exceeds UInt64 range"]),
    ("tonnes", pa.array([1, 2**63], pa.uint64()), "type", ["Port.tonnes", "exceeds Int64 range"]),
    ("opened", pa.array(["2024-01-01", "2024-02-30"]), "type", ["Port.opened", "expects a date", "2024-02-30"]),
    ("opened", pa.array([0, 10**8], pa.int64()), "type", ["Port.opened", "range"]),
    ("opened", pa.array([0, 1], pa.timestamp("ns")), "type", ["Port.opened", "time of day"]),
    ("seen", pa.array([0, 2**60], pa.timestamp("s")), "type", ["Port.seen", "range"]),
    ("seen", pa.array(["2024-05-01T12:00:00Z", "x"]), "type", ["Port.seen", "expects an instant"]),
    ("tags", pa.array([["a"], ["b", None]]), "type", ["Port.tags", "null"]),
    ("sizes", pa.array([[1], [2, 2**31]]), "type", ["Port.sizes", "Int32 range", "2147483648"]),
    ("place", pa.array([[1.0, 2.0, 3.0], [1.0]]), "type", ["Port.place", "3 dimensions", "1"]),
    ("place", pa.array([[1.0, 2.0, 3.0], [1.0, None, 3.0]]), "type", ["Port.place", "numeric"]),
    ("place", pa.array([[1.0, 2.0, 3.0], [1.0, 1e39, 3.0]]), "type", ["Port.place", "Float32 range"]),
    ("photo", pa.array(["base64:aGk=", "base64:?"]), "type", ["Port.photo", "base64"]),
    ("photo", pa.array(["base64:aGk=", "https://x"]), "blob", ["Port.photo", "external blob references are not allowed"]),
    ("kind", pa.array(["sea", None]), "required", ["Port.kind", "null"]),
]


@pytest.mark.parametrize(("name", "column", "rule", "fragments"), FAULTS, ids=label)
def test_a_faulty_row_is_refused_and_the_others_kept(name: str, column: pa.Array, rule: str, fragments: list[str]) -> None:
    rejects: list[Reject] = []
    (batch,) = load({"Port": ports(column, name)}, on_reject=rejects.append)

    assert batch.rows["id"].to_pylist() == ["p0"]
    assert batch.lines.to_pylist() == [1]
    ((line, key, id_, found, property_),) = [
        (each.line, each.table_key, each.id, each.rule, each.property) for each in rejects
    ]
    assert (line, key, id_, found, property_) == (2, "node:Port", "p1", rule, name)
    with pytest.raises(BadRequest if rule == "blob" else ValidationFailed) as caught:
        load({"Port": ports(column, name)})
    assert caught.value.message == rejects[0].message
    for fragment in ["row 2: ", *fragments]:
        assert fragment in caught.value.message


def test_a_blob_has_a_ceiling() -> None:
    for column in (pa.array([b"12345"]), pa.array(["base64:AAAAAAA="])):
        assert column_of("photo", column, limits=ReaderLimits(blob_bytes=5)) != []
        with pytest.raises(ResourceLimit) as caught:
            column_of("photo", column, limits=ReaderLimits(blob_bytes=4))
        assert caught.value.actual == 5


def test_missing_columns_are_null_or_default() -> None:
    (batch,) = load({"Port": pa.table({"code": ["A"]})})

    assert batch.rows.schema.equals(table_schema(CATALOG.nodes["Port"]), check_metadata=True)
    row = batch.rows.to_pylist()[0]
    assert (row["id"], row["kind"], row["pilots"], row["depth"]) == ("A", "sea", 2, None)


def test_a_missing_required_column_is_refused_unless_there_are_no_rows() -> None:
    with pytest.raises(ValidationFailed, match=r"^row 1: `Ship.name` is required, but absent, and cannot be null") as caught:
        load({"Ship": pa.table({"crew": [1]})})
    assert caught.value.rule == "required"

    (batch,) = load({"Ship": pa.table({"crew": pa.array([], pa.string())})})
    assert (batch.table_key, batch.rows.num_rows) == ("node:Ship", 0)


@pytest.mark.parametrize(
    "source",
    [
        pa.table({"name": pa.array([], pa.string())}),
        [],
        [pa.record_batch({"name": pa.array([], pa.string())})],
        pa.table({"name": pa.nulls(0)}),
        pa.table({}),
    ],
)
def test_an_empty_table_is_still_mentioned(source: object) -> None:
    (batch,) = load({"Ship": source})

    assert (batch.table_key, batch.rows.num_rows) == ("node:Ship", 0)
    assert batch.rows.schema.equals(table_schema(CATALOG.nodes["Ship"]), check_metadata=True)


@pytest.mark.parametrize("names", [("src", "dst"), ("from", "to"), ("src", "to")])
def test_edges_have_endpoints(names: tuple[str, str]) -> None:
    (batch,) = load({"homedat": pa.table({names[0]: ["s"], names[1]: ["A"]})})

    assert batch.table_key == "edge:HomedAt"
    assert (batch.rows["src"].to_pylist(), batch.rows["dst"].to_pylist()) == (["s"], ["A"])
    assert batch.explicit_id.to_pylist() == [False]


def test_ids_may_be_given() -> None:
    (batch,) = load({"Ship": pa.table({"name": ["a", "b"], "id": ["x", None]})})
    assert batch.explicit_id.to_pylist() == [True, False]
    assert batch.rows["id"].to_pylist()[0] == "x"

    (batch,) = load({"Port": pa.table({"code": ["a", "b"], "id": ["a", None]})})
    assert batch.explicit_id.to_pylist() == [False, False]

    with pytest.raises(BadRequest, match='row 2: node:Port: `id` "c" does not match "b"'):
        load({"Port": pa.table({"code": ["a", "b"], "id": ["a", "c"]})})


@pytest.mark.parametrize(
    ("name", "table", "fragments"),
    [
        ("Prot", {"code": ["A"]}, ["unknown node type or edge type", "Prot", "did you mean `Port`?"]),
        ("node:Prot", {"code": ["A"]}, ["unknown node type", "did you mean `Port`?"]),
        ("edge:Lame", {"src": ["A"]}, ["unknown edge type", "did you mean `Lane`?"]),
        ("edge:Port", {"src": ["A"]}, ["unknown edge type", "is a node type"]),
        ("Lane", {"name": ["x"]}, ["a node type and an edge type", "node:Lane", "edge:Lane"]),
        ("Port", {"code": ["A"], "dept": [1]}, ["unknown column", "dept", "node:Port", "did you mean `depth`?"]),
        ("Port", {"code": ["A"], "_rowid": [1]}, ["_rowid", "reserved"]),
        ("Port", {"code": ["A"], "src": ["A"]}, ["unknown column", "src"]),
        ("edge:Lane", {"src": ["A"]}, ["`dst`", "missing"]),
        ("edge:Lane", {"src": ["A"], "from": ["A"], "dst": ["B"]}, ["exactly one of", "src", "from"]),
        ("edge:Lane", {"src": [1], "dst": ["B"]}, ["`src`", "expects a string"]),
        ("edge:Lane", {"src": ["A"], "dst": [None]}, ["row 1", "`dst`", "null"]),
        ("Ship", {"name": ["A"], "id": [1]}, ["`id`", "expects a string"]),
    ],
)
def test_a_table_of_another_shape_is_refused(name: str, table: dict[str, list[Any]], fragments: list[str]) -> None:
    with pytest.raises(BadRequest) as caught:
        load({name: pa.table(table)})
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["code", "code"])

    with pytest.raises(BadRequest, match="two columns called `code`"):
        load({"Port": table})


def test_a_shared_name_needs_a_prefix() -> None:
    batches = load({"node:Lane": pa.table({"name": ["x"]}), "edge:lane": pa.table({"src": ["A"], "dst": ["B"]})})

    assert [batch.table_key for batch in batches] == ["node:Lane", "edge:Lane"]


@pytest.mark.parametrize("source", [5, None, "code\nA", {"code": ["A"]}, [5], [{"code": "A"}]])
def test_what_is_no_table_is_refused(source: object) -> None:
    with pytest.raises(BadRequest, match="table"):
        load({"Port": source})


def test_texts_that_are_not_utf_8_are_refused() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])

    with pytest.raises(BadRequest, match=r"UTF-?8"):
        load({"Port": pa.table({"code": broken})})


# Kinds of sources

SHIPS = pa.table({"name": ["a", "b", "c"], "crew": pa.array([1, None, 3], pa.int64())})


def ships_of(source: Any) -> list[tuple[str, int | None]]:
    batches = load({"Ship": source})
    assert [line for batch in batches for line in batch.lines.to_pylist()] == [1, 2, 3]
    return [(row["name"], row["crew"]) for batch in batches for row in batch.rows.to_pylist()]


def batches_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SHIPS,
        lambda: SHIPS.to_batches()[0],
        SHIPS.to_reader,
        lambda: batches_of(SHIPS),
        lambda: [SHIPS.slice(0, 1), SHIPS.slice(1)],
        lambda: pytest.importorskip("pandas") and SHIPS.to_pandas(),
        lambda: pytest.importorskip("polars").from_arrow(SHIPS),
        lambda: pytest.importorskip("duckdb").from_arrow(SHIPS),
        lambda: datafusion.SessionContext().from_arrow(SHIPS),
    ],
    ids=["table", "batch", "reader", "generator", "tables", "pandas", "polars", "duckdb", "datafusion"],
)
def test_tables_come_from_anywhere(make: Any) -> None:
    assert ships_of(make()) == [("a", 1), ("b", None), ("c", 3)]


def write_csv(path: Path) -> None:
    pyarrow.csv.write_csv(SHIPS, path)


def write_packed_csv(path: Path) -> None:
    with pa.CompressedOutputStream(str(path), "gzip") as out:
        pyarrow.csv.write_csv(SHIPS, out)


def write_stream(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, SHIPS.schema) as out:
        out.write_table(SHIPS, max_chunksize=1)


def write_file(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, SHIPS.schema) as out:
        out.write_table(SHIPS, max_chunksize=2)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("ships.parquet", lambda path: pq.write_table(SHIPS, path)),
        ("ships.feather", lambda path: pyarrow.feather.write_feather(SHIPS, path)),
        ("ships.arrow", write_file),
        ("ships.arrow", write_stream),
        ("ships.IPC", write_file),
        ("ships.csv", write_csv),
        ("ships.csv.gz", write_packed_csv),
    ],
)
def test_tables_come_from_files(tmp_path: Path, name: str, write: Any) -> None:
    write(tmp_path / name)

    assert ships_of(tmp_path / name) == [("a", 1), ("b", None), ("c", 3)]


@pytest.mark.parametrize("name", ["ships.parquet", "ships.csv", "ships.arrow", "ships.txt"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_an_unreadable_file_is_refused(tmp_path: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)

    with pytest.raises(OmnigraphError):
        load({"Ship": tmp_path / name})


def test_pandas_frames_have_their_ways() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "code": ["a", "b"],
            "crew": [1, None],
            "kind": pd.Categorical(["sea", "river"]),
            "opened": pd.to_datetime(["2024-01-01", None]),
            "seen": pd.to_datetime(["2024-05-01T12:00:00+02:00", None]),
            "tags": [["x"], None],
            "place": [[1.0, 2.0, 3.0], None],
        }
    )
    (batch,) = load({"Port": frame})
    first, second = batch.rows.to_pylist()

    assert (first["crew"], first["opened"], first["seen"]) == (1, datetime.date(2024, 1, 1), at(2024, 5, 1, 10))
    assert (first["kind"], first["tags"], first["place"]) == ("sea", ["x"], [1.0, 2.0, 3.0])
    assert (second["crew"], second["opened"], second["place"]) == (None, None, None)
    with pytest.raises(BadRequest, match="reset_index"):
        load({"Ship": pd.DataFrame({"name": ["a"]}, index=["x"])})
    with pytest.raises(BadRequest, match="node:Ship"):
        load({"Ship": pd.DataFrame({"name": ["a", 1]})})


def test_polars_frames_have_their_ways() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {
            "code": ["a", "b"],
            "kind": pl.Series(["sea", "river"], dtype=pl.Categorical),
            "place": pl.Series([[1.0, 2.0, 3.0], None], dtype=pl.Array(pl.Float32, 3)),
            "seen": [datetime.datetime(2024, 5, 1, 12), None],
            "opened": [datetime.date(2024, 1, 1), None],
        }
    )
    (batch,) = load({"Port": frame})
    first, second = batch.rows.to_pylist()

    assert (first["kind"], first["place"], first["seen"]) == ("sea", [1.0, 2.0, 3.0], at(2024, 5, 1, 12))
    assert (second["kind"], second["place"], second["opened"]) == ("river", None, None)


def test_large_tables_come_in_pieces() -> None:
    table = pa.table({"name": ["x" * 100] * 1000, "crew": range(1000)})
    batches = load({"Ship": table}, batch_bytes=10_000)

    assert len(batches) >= 10
    assert [line for batch in batches for line in batch.lines.to_pylist()] == list(range(1, 1001))
    assert [crew for batch in batches for crew in batch.rows["crew"].to_pylist()] == list(range(1000))


def test_small_batches_are_joined() -> None:
    pieces = SHIPS.to_batches(max_chunksize=1) * 1000

    assert len(load({"Ship": iter(pieces)})) == 1


# CSV: everything is text


def csv(tmp_path: Path, text: str | bytes, name: str = "data.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_csv_cells_become_values(tmp_path: Path) -> None:
    header = "code,depth,draught,crew,tonnes,serial,open,opened,seen,tags,place,photo,kind"
    rows = [
        'a,1.5,0.1,1,-9223372036854775808,18446744073709551615,true,2024-01-01,2024-05-01T12:00:00Z,"[""x""]","[1,2,3]",base64:aGk=,sea',
        'b,1e3,-.5,7.0,+5,1e3,False,10,2024-05-01 12:00:00,[],"[1, 2.5, -3e0]",base64:,river',
        "c,,,,,,,,2024-05-01,,,,sea",
        '"",5,5.,,,,TRUE,,1500,,,,sea',
    ]
    (batch,) = load({"Port": csv(tmp_path, "\ufeff" + "\r\n".join([header, *rows]) + "\r\n")})
    a, b, c, d = batch.rows.to_pylist()

    assert [a[name] for name in header.split(",")[:9]] == [
        "a",
        1.5,
        0.10000000149011612,
        1,
        -(2**63),
        2**64 - 1,
        True,
        datetime.date(2024, 1, 1),
        at(2024, 5, 1, 12),
    ]
    assert (a["tags"], a["place"], a["photo"]["data"], a["kind"]) == (["x"], [1.0, 2.0, 3.0], b"hi", "sea")
    assert (b["depth"], b["draught"], b["crew"], b["tonnes"], b["serial"]) == (1000.0, -0.5, 7, 5, 1000)
    assert (b["open"], b["opened"], b["seen"], b["tags"]) == (False, datetime.date(1970, 1, 11), at(2024, 5, 1, 12), [])
    assert (c["depth"], c["crew"], c["open"], c["opened"], c["tags"], c["photo"]) == (None,) * 6
    assert c["seen"] == at(2024, 5, 1)
    assert (d["id"], d["depth"], d["draught"], d["open"], d["seen"]) == (
        "",
        5.0,
        5.0,
        True,
        at(1970, 1, 1, 0, 0, 1, 500_000),
    )


@pytest.mark.parametrize(
    ("name", "cell", "fragment"),
    [
        ("crew", "x", "expects a whole number"),
        ("crew", "1.5", "expects a whole number"),
        ("crew", "99999999999", "Int32 range"),
        ("crew", "2147483648", "Int32 range"),
        ("crew", "1_000", "expects a whole number"),
        ("crew", " 1", "expects a whole number"),
        ("depth", "nan", "expects a number"),
        ("depth", "1e999", "Float64 range"),
        ("depth", "inf", "expects a number"),
        ("draught", "1e39", "Float32 range"),
        ("open", "1", "expects true or false"),
        ("opened", "01.02.2024", "expects a date"),
        ("seen", "noon", "expects an instant"),
        ("tags", "x", "expects an array"),
        ("tags", "[1]", "expects a string"),
        ("place", '"[1,2]"', "3 dimensions"),
        ("photo", "x.png", "external blob references"),
        ("kind", "", "null"),
        ("code", "", "null"),
    ],
)
def test_a_faulty_cell_is_refused(tmp_path: Path, name: str, cell: str, fragment: str) -> None:
    names = ["code", name] if name != "code" else ["code", "crew"]
    cells = ["b", cell] if name != "code" else ["", "1"]
    path = csv(tmp_path, f"{','.join(names)}\n{','.join(cells)}\n")

    with pytest.raises((ValidationFailed, BadRequest), match=r"^row 1: ") as caught:
        load({"Port": path})
    assert fragment in caught.value.message
    assert f"Port.{name}" in caught.value.message


def test_rows_of_the_wrong_width_are_refused(tmp_path: Path) -> None:
    path = csv(tmp_path, 'name,crew\na,1\nb\n"c\nc",3\nd,4,5\ne,x\nf,6\ng\n')
    rejects: list[Reject] = []
    (batch,) = load({"Ship": path}, on_reject=rejects.append)

    assert list(zip(batch.lines.to_pylist(), batch.rows["name"].to_pylist(), strict=True)) == [
        (1, "a"),
        (3, "c\nc"),
        (6, "f"),
    ]
    assert [(each.line, each.rule, each.source) for each in rejects] == [
        (2, "record", str(path)),
        (4, "record", str(path)),
        (5, "type", str(path)),
        (7, "record", str(path)),
    ]
    with pytest.raises(BadRequest, match=r"^row 2: node:Ship: the row has 1 cells, and the header names 2 columns"):
        load({"Ship": path})


def test_many_rows_of_a_csv_file_keep_their_numbers(tmp_path: Path) -> None:
    lines = ["name,crew"] + [f"s{row},{row}" if row % 1000 else "short" for row in range(1, 200_001)]
    rejects: list[Reject] = []
    batches = load({"Ship": csv(tmp_path, "\n".join(lines))}, on_reject=rejects.append, batch_bytes=1 << 20)

    assert len(batches) > 1
    assert [each.line for each in rejects] == list(range(1000, 200_001, 1000))
    for batch in batches:
        assert batch.lines.to_pylist() == batch.rows["crew"].to_pylist()


def test_a_csv_file_of_other_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="unknown column `crw`"):
        load({"Ship": csv(tmp_path, "name,crw\na,1\n")})
    with pytest.raises(BadRequest, match="node:Ship"):
        load({"Ship": csv(tmp_path, b"name\n\xff\n")})


def test_a_header_alone_is_an_empty_table(tmp_path: Path) -> None:
    (batch,) = load({"Ship": csv(tmp_path, "name,crew\n")})

    assert batch.rows.num_rows == 0


def test_an_absent_vector_does_not_make_batches_long() -> None:
    """It takes room in a batch, and none in the data."""
    catalog = compile_schema("node Note { text: String @key  v: Vector(256)? }")
    data = pa.table({"text": [str(row) for row in range(1000)]})
    batches = list(read_tables({"Note": data}, catalog, batch_bytes=100_000))

    assert max(batch.rows.nbytes for batch in batches) <= 120_000
    assert [line for batch in batches for line in batch.lines.to_pylist()] == [*range(1, 1001)]
