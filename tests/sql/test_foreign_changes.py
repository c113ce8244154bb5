"""Files of foreign tables that come, change, go and break while sessions are open, in both engines."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

from omnigraph_sql import errors
from omnigraph_sql.graph import Graph

ENGINES: list[Any] = ["datafusion", "duckdb"]
FORMATS = ["parquet", "csv"]
Ask = Callable[[str], list[tuple[Any, ...]]]


def write(path: Path, numbers: list[int]) -> None:
    """A file of one column; the same size for as many numbers of as many digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        path.write_text("".join(f"{line}\n" for line in ["a", *numbers]))
    else:
        pq.write_table(pa.table({"a": pa.array(numbers, pa.int64())}), path)


@pytest.fixture(params=[*ENGINES, "session", "connection", "attached session", "attached connection"])
def ask(request: pytest.FixtureRequest, graph: Graph) -> Ask:
    """Runs SQL in one of the sessions that there are, which is opened when it is needed. Tables are `g.foreign.NAME`."""
    kind: Any = request.param
    opened: list[Any] = []

    def run(text: str) -> list[tuple[Any, ...]]:
        if kind in ENGINES:
            found = graph.sql(text.replace("g.foreign.", "foreign."), engine=kind).to_pylist()
            return [tuple(row.values()) for row in found]
        if not opened:
            opened.append(_session(graph, kind))
        text = text if kind.startswith("attached") else text.replace("g.foreign.", 'graph."foreign".')
        if isinstance(opened[0], SessionContext):
            return [tuple(row.values()) for row in opened[0].sql(text).to_pylist()]
        rows: list[tuple[Any, ...]] = opened[0].execute(text).fetchall()
        return rows

    return run


def _session(graph: Graph, kind: str) -> Any:
    match kind:
        case "session":
            return graph.datafusion()
        case "connection":
            return graph.duckdb()
        case "attached session":
            made: Any = SessionContext()
        case _:
            made = duckdb.connect()
    graph.attach(made, alias="g")
    return made


TOTAL = "SELECT count(*) AS n, sum(a) AS s, max(a) AS m FROM g.foreign.{}"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("source", ["d", "d/*.{}", "d/**/*.{}"])
def test_files_that_come_change_and_go_between_statements(
    graph: Graph, tmp_path: Path, ask: Ask, form: str, source: str
) -> None:
    write(tmp_path / f"d/1.{form}", [10])
    graph.register("it", tmp_path / source.format(form))
    assert ask(TOTAL.format("it")) == [(1, 10, 10)]
    write(tmp_path / f"d/2.{form}", [20])
    assert ask(TOTAL.format("it")) == [(2, 30, 20)]
    write(tmp_path / f"d/2.{form}", [21, 22])
    assert ask(TOTAL.format("it")) == [(3, 53, 22)]
    write(tmp_path / f"d/2.{form}", [23, 24])
    assert ask(TOTAL.format("it")) == [(3, 57, 24)]
    (tmp_path / f"d/1.{form}").unlink()
    assert ask(TOTAL.format("it")) == [(2, 47, 24)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_is_overwritten(graph: Graph, tmp_path: Path, ask: Ask, form: str) -> None:
    path = tmp_path / f"1.{form}"
    write(path, [10])
    graph.register("it", path)
    for number in (10, 11, 12, 99, 98):
        write(path, [number])
        assert ask(TOTAL.format("it")) == [(1, number, number)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_with_the_size_and_time_of_the_one_before(
    graph: Graph, tmp_path: Path, ask: Ask, form: str, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.params["ask"] == "attached session":
        ask("SET datafusion.runtime.metadata_cache_limit = '0K'")  # theirs to decide, as the guide says
    for number in (10, 11, 12):
        write(tmp_path / f"1.{form}", [number])
        os.utime(tmp_path / f"1.{form}", ns=(10**18, 10**18))
        if number == 10:
            graph.register("it", tmp_path / f"1.{form}")
        assert ask(TOTAL.format("it")) == [(1, number, number)]


def test_two_patterns_in_one_directory_and_registering_again(graph: Graph, tmp_path: Path) -> None:
    def totals(name: str) -> list[Any]:
        text = TOTAL.format(name).replace("g.", "")
        first, second = graph.sql(text).to_pylist(), graph.sql(text, engine="duckdb").to_pylist()
        assert first == second
        return list(first[0].values())

    write(tmp_path / "d/p-1.parquet", [1])
    graph.register("p", tmp_path / "d/p-*.parquet")
    assert totals("p") == [1, 1, 1]
    write(tmp_path / "d/s-1.parquet", [2])
    write(tmp_path / "d/s-2.parquet", [3])
    graph.register("s", tmp_path / "d/s-*.parquet")
    assert totals("s") == [2, 5, 3]
    write(tmp_path / "d/s-3.parquet", [4])
    graph.unregister("s")
    graph.register("s", tmp_path / "d/s-*.parquet")
    assert totals("s") == [3, 9, 4]


@pytest.mark.parametrize("form", FORMATS)
def test_a_pattern_has_no_files_further_down_and_a_directory_has(graph: Graph, tmp_path: Path, ask: Ask, form: str) -> None:
    for number, path in enumerate(["1", "sub/2", "k=1/3", "sub/deep/4"]):
        write(tmp_path / f"d/{path}.{form}", [10**number])
    for name, source in {"all": "d", "flat": "d/*", "deep": "d/**/*", "subs": "d/*/*", "one": "d/s*/*"}.items():
        graph.register(name, tmp_path / (source if source == "d" else f"{source}.{form}"))

    sums = {name: ask(f"SELECT sum(a) AS s FROM g.foreign.{name}")[0][0] for name in ("all", "flat", "deep", "subs", "one")}
    assert sums == {"all": 1111, "flat": 1, "deep": 1111, "subs": 110, "one": 10}


TYPES = pa.table(
    {
        "a": pa.array([1], pa.uint8()),
        "d": pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
        "t": pa.array(["x"]).dictionary_encode(),
        "m": pa.array([datetime(2024, 2, 29, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        "s": pa.array([{"x": 1, "y": [1.5]}]),
        "b": pa.array([b"x"]),
    }
)


def test_connections_show_the_types_that_files_have(graph: Graph, tmp_path: Path) -> None:
    pq.write_table(TYPES, tmp_path / "a.parquet")
    graph.register("it", tmp_path / "a.parquet")
    text = "SELECT * FROM {} WHERE a = 1 AND t = 'x' AND s.x = 1 AND d < 2 AND m IS NOT NULL AND b IS NOT NULL"
    plain, ours = duckdb.connect(), graph.duckdb()
    ours.execute("SET TimeZone = 'UTC'")
    plain.execute("SET TimeZone = 'UTC'")
    expected = plain.sql(text.format(f"'{tmp_path}/a.parquet'"))

    assert ours.sql(text.format("it")).types == expected.types
    assert ours.sql(text.format("it")).fetchall() == expected.fetchall() != []
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(duckdb.Error, match=r"are gone|No files found"):
        ours.sql(text.format("it")).fetchall()


def test_files_that_come_back_are_not_taken_for_a_table_without_rows(graph: Graph, tmp_path: Path, ask: Ask) -> None:
    write(tmp_path / "a.parquet", [1])
    graph.register("it", tmp_path / "a.parquet")
    (tmp_path / "a.parquet").rename(tmp_path / "away")
    with pytest.raises(Exception, match="are gone"):
        ask(TOTAL.format("it"))
    (tmp_path / "away").rename(tmp_path / "a.parquet")
    with suppress(duckdb.Error):  # a connection keeps to what it was told when the graph was attached
        assert ask(TOTAL.format("it")) == [(1, 1, 1)]


# Columns in another order


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_csv_files_with_columns_in_another_order_are_refused(graph: Graph, tmp_path: Path, suffix: str) -> None:
    def put(name: str, text: str) -> None:
        (tmp_path / f"{name}{suffix}").write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())

    put("a-1", "a,b\n1,2\n")
    put("a-2", "b,a\n20,10\n")
    with pytest.raises(
        errors.SourceFailed, match=rf"columns of .*a-2{suffix} are `b` and `a`, and not `a` and `b`"
    ) as caught:
        graph.register("it", tmp_path / f"a-*{suffix}")
    assert caught.value.name == "it"
    assert graph.foreign() == []
    put("a-2", '"a",b\n20,10\n')
    graph.register("it", tmp_path / f"a-*{suffix}")
    for engine in ENGINES:
        assert len(graph.sql("SELECT a, b FROM it", engine=engine).to_pylist()) == 2


@pytest.mark.parametrize("text", ["b,a\n2,1\n", "a\n1\n", "a,b,c\n1,2,3\n", "a,c\n1,2\n"])
def test_a_csv_file_whose_columns_change(graph: Graph, tmp_path: Path, ask: Ask, text: str) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    graph.register("it", tmp_path / "a.csv")
    assert ask("SELECT a, b FROM g.foreign.it") == [(1, 2)]
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(Exception, match=r"foreign table `it` are not what they were: the columns of .*a\.csv are") as caught:
        ask("SELECT a, b FROM g.foreign.it WHERE a > 0 AND b > 0")
    if isinstance(caught.value, errors.OmnigraphError):
        assert isinstance(caught.value, errors.SourceFailed)
        assert (caught.value.name, caught.value.source) == ("it", str(tmp_path / "a.csv"))
    (tmp_path / "a.csv").write_text("a,b\n3,4\n")
    assert ask("SELECT a, b FROM g.foreign.it") == [(3, 4)]


def test_a_schema_that_has_the_columns_in_another_order(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(errors.BadRequest, match="are `a` and `b` in this order, and not as schema= has them"):
        graph.register("it", tmp_path / "a.csv", schema={"b": "int64", "a": "int64"})
    graph.register("it", tmp_path / "a.csv", schema={"x": "int64", "y": "int64"})  # names of one's own

    for engine in ENGINES:
        found = graph.sql("SELECT x, y FROM it", engine=engine).to_pylist()
        assert found == [{"x": 1, "y": 2}]


# Files that break


@pytest.mark.parametrize("engine", ENGINES)
def test_parquet_files_that_break(graph: Graph, tmp_path: Path, engine: Any) -> None:
    path = tmp_path / "a.parquet"
    write(path, [1])
    graph.register("it", path)
    assert graph.sql("SELECT a FROM it", engine=engine).to_pylist() == [{"a": 1}]

    for content in (b"garbage garbage garbage", b""):
        path.write_bytes(content)
        with pytest.raises(errors.SourceFailed, match=r"foreign table `it` .*a\.parquet cannot be read") as caught:
            graph.sql("SELECT a FROM it", engine=engine).to_pylist()
        assert (caught.value.name, caught.value.source) == ("it", str(path))
    pq.write_table(pa.table({"q": [1]}), path)
    with pytest.raises(errors.SourceFailed, match=r"a\.parquet has no column `a` any more; there are `q`"):
        graph.sql("SELECT a FROM it", engine=engine).to_pylist()
    assert len(graph.sql('SELECT name FROM "Person"', engine=engine).to_pylist()) == 4
    write(path, [2])
    assert graph.sql("SELECT a FROM it", engine=engine).to_pylist() == [{"a": 2}]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("values", [["7"], [1.5], [True]])
def test_a_column_of_parquet_that_holds_something_else(graph: Graph, tmp_path: Path, engine: Any, values: list[Any]) -> None:
    write(tmp_path / "a.parquet", [1])
    graph.register("it", tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": values}), tmp_path / "a.parquet")
    with pytest.raises(errors.SourceFailed, match=r"the column `a` of .*a\.parquet is \w+, and not int64"):
        graph.sql("SELECT a FROM it", engine=engine).to_pylist()
    pq.write_table(pa.table({"a": pa.array([3], pa.int16())}), tmp_path / "a.parquet")
    assert graph.sql("SELECT a FROM it", engine=engine).to_pylist() == [{"a": 3}]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_parquet_file_that_is_damaged_inside(graph: Graph, tmp_path: Path, engine: Any) -> None:
    path = tmp_path / "a.parquet"
    write(path, list(range(10_000)))
    graph.register("it", path)
    whole = bytearray(path.read_bytes())
    whole[4:3000] = b"\xfd" * 2996
    path.write_bytes(whole)
    with pytest.raises(errors.SourceFailed, match="foreign table `it`") as caught:
        graph.sql("SELECT sum(a) AS s FROM it", engine=engine).to_pylist()
    assert (caught.value.name, caught.value.source) == ("it", str(path))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("row", ["x,1", "1", "1,2,3"])
def test_csv_rows_that_do_not_fit(graph: Graph, tmp_path: Path, engine: Any, row: str) -> None:
    (tmp_path / "fine.csv").write_text("t,n,m\nx,1,2\n")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    graph.register("fine", tmp_path / "fine.csv", types={"n": "string"})
    graph.register("it", tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(f"a,b\n{row}\n")
    for text in ("SELECT a, b FROM it", "SELECT a FROM it UNION ALL SELECT 1 FROM fine"):
        with pytest.raises(errors.SourceFailed, match="foreign table `it`") as caught:
            graph.sql(text, engine=engine).to_pylist()
        assert (caught.value.name, caught.value.source) == ("it", str(tmp_path / "a.csv"))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_mistake_of_the_statement_is_not_blamed_on_files(graph: Graph, tmp_path: Path, engine: Any) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,x\n")
    graph.register("it", tmp_path / "a.csv")
    with pytest.raises(errors.BadRequest):
        graph.sql("SELECT CAST(b AS INTEGER) AS n FROM it", engine=engine).to_pylist()
