"""The rows of sources as DataFrames, in the form that mappings read (`omnigraph_sql.planner.mapping`).

Spark splits lines of JSON and Parquet files where it can. What it would pass over, or reads otherwise than the engine
`local`, is read by a task for each file with the code of that engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph_compiler.diagnostics import listing
from omnigraph_sql.engines.choosing import require_duckdb
from omnigraph_sql.engines.ingest.files import LINE, Files, Tally, header, line_batches, placed_schema, raw_batches
from omnigraph_sql.engines.ingest.tables import open_table
from omnigraph_sql.engines.spark.failures import carrying
from omnigraph_sql.errors import BadRequest, Configuration
from omnigraph_sql.pipeline.planning import PlannedSource
from omnigraph_sql.pipeline.spec import POSTGRES
from omnigraph_sql.planner.mapping import AT, COLUMN, RULE, VALUE
from omnigraph_sql.spark.types import shown, widened
from omnigraph_sql.writes.remote_table import ORIGIN_STEP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PACKED: Final = (".gz", ".bz2", ".zst", ".zstd", ".lz4", ".br", ".deflate", ".snappy", ".xz")
"""Suffixes by which Spark or Arrow unpacks a file, not always both. Few of these files could be split."""
Batches = Iterator[pa.RecordBatch]


def raw_rows(
    spark: SparkSession, source: PlannedSource, columns: Sequence[str], directory: Path
) -> tuple[DataFrame, list[str]]:
    """The rows of a source, and what they came from; files below the directory are called by their paths from there."""
    given = source.source
    if given.format == POSTGRES:
        return _database(spark, source, columns)
    if not source.files:
        return _loaded(spark, source, columns), [given.name]
    names = [_shown(path, directory) for path in source.files]
    read = {"jsonl": _json_files, "csv": _csv_files, "parquet": _parquet_files}[given.format]
    return read(spark, source, columns), names


def _json_files(spark: SparkSession, source: PlannedSource, columns: Sequence[str]) -> DataFrame:
    """In the order of the files, which decides which of two rows came first."""

    def is_whole(place: int) -> bool:
        path = source.files[place]
        return _is_passed_over(path) or path.lower().endswith(_PACKED)

    frames = []
    for by_tasks, found in groupby(range(len(source.files)), is_whole):
        places = list(found)
        if by_tasks:
            frames.append(_by_tasks(spark, source, places, columns, [pa.string()] * len(columns)))
        else:
            frames += [_json_rows(spark.read.text(_address(source.files[each])), each, columns) for each in places]
    return _union(frames)


def _csv_files(spark: SparkSession, source: PlannedSource, columns: Sequence[str]) -> DataFrame:
    """Files that cannot be split, because a value may go over several lines."""
    return _by_tasks(spark, source, range(len(source.files)), columns, [pa.string()] * len(columns))


def _parquet_files(spark: SparkSession, source: PlannedSource, columns: Sequence[str]) -> DataFrame:
    return _union([_parquet(spark, source, place, columns) for place in range(len(source.files))])


def _parquet(spark: SparkSession, source: PlannedSource, place: int, columns: Sequence[str]) -> DataFrame:
    """One file. Columns that nothing reads do not matter, whatever their types and names are."""
    from pyspark.sql.pandas.types import from_arrow_schema

    path = source.files[place]
    found = header(Files("parquet", (path,)))
    assert found is not None
    fields = [_spark_field(found, name, path) for name in columns]
    lower = [name.lower() for name in found.names]
    is_clear = all(lower.count(name.lower()) == 1 for name in columns)
    if is_clear and not _is_passed_over(path) and not any(_holds(each.type, _is_fine) for each in fields):
        given = pa.schema([pa.field(each.name, widened(each.type)) for each in fields])
        reader = spark.read.schema(from_arrow_schema(given)) if _is_odd(found) else spark.read
        return _looked_up(_plain_rows(reader.parquet(_address(path)), place, columns))
    return _by_tasks(spark, source, [place], columns, [widened(each.type) for each in fields])


def _spark_field(schema: pa.Schema, name: str, path: str) -> pa.Field:
    """A column of a file that Spark has a type for."""
    found = next((schema.field(each) for each in schema.names if each == name), None)
    if found is None:
        alike = [each for each in schema.names if each.lower() == name.lower()]
        if len(alike) != 1:
            raise BadRequest(f"{path} has no column `{name}`", hint=f"there are {listing(schema.names) or 'none'}")
        found = schema.field(alike[0])
    if _holds(found.type, pa.types.is_time):
        hint = "run the pipeline with the engine local, or write the column as a text"
        raise Configuration(
            f"the column `{name}` of {path} holds times of day, which Spark does not read", what=name, hint=hint
        )
    return found


def _is_odd(schema: pa.Schema) -> bool:
    """Whether Spark refuses a file as a whole for columns that nothing may want."""
    names = {name.lower() for name in schema.names}
    return len(names) < len(schema.names) or any(
        _holds(each.type, _is_fine) or _holds(each.type, pa.types.is_time) for each in schema
    )


def _is_fine(kind: pa.DataType) -> bool:
    """Whether it is a time of a finer unit than Spark has."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def _holds(kind: pa.DataType, wanted: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type is, or has in it, one of some kind."""
    return wanted(kind) or any(_holds(kind.field(place).type, wanted) for place in range(kind.num_fields))


def _by_tasks(
    spark: SparkSession, source: PlannedSource, places: Sequence[int], columns: Sequence[str], types: Sequence[pa.DataType]
) -> DataFrame:
    """Files that are read by one task each, as the engine `local` reads them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    form, paths, options = source.source.format, source.files, source.source.options
    wanted = list(columns)
    schema = placed_schema([pa.field(name, kind) for name, kind in zip(wanted, types, strict=True)])
    if form == "jsonl":
        require_duckdb()

    def one(place: int) -> Batches:
        rows = raw_batches(Files(form, (paths[place],), options), wanted, place, ORIGIN_STEP, Tally())
        if form != "jsonl":
            return (_fit(batch, schema, paths[place]) for batch in rows)
        from omnigraph_sql.engines.ingest.duckdb import json_batches

        return json_batches(rows, wanted)

    def read(batches: Batches) -> Batches:
        with carrying():
            for batch in batches:
                for at in batch.column(0).to_pylist():
                    yield from one(places[at])

    return spark.range(0, len(places), 1, len(places)).mapInArrow(read, from_arrow_schema(schema))


def _fit(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    try:
        return shown(batch.rename_columns(schema.names), schema)
    except pa.ArrowException as error:
        hint = "run the pipeline with the engine local, or write the file with types that Spark has"
        raise BadRequest(f"{path} cannot be read by Spark: {str(error).splitlines()[0]}", hint=hint) from error


def _json_rows(lines: DataFrame, place: int, columns: Sequence[str]) -> DataFrame:
    """Lines of JSON as rows. The tasks read them as the engine `local` does: there are many ways to read odd JSON."""
    from pyspark.sql import functions as f

    require_duckdb()
    wanted = tuple(columns)

    def read(batches: Batches) -> Batches:
        from omnigraph_sql.engines.ingest.duckdb import json_batches

        with carrying():
            yield from json_batches(line_batches(batches), wanted)

    return lines.select(_number(place), f.col("value").cast("binary").alias(LINE)).mapInArrow(read, _raw_schema(wanted))


def _loaded(spark: SparkSession, source: PlannedSource, columns: Sequence[str]) -> DataFrame:
    """Whatever Spark can read by itself."""
    given = source.source
    for path in given.paths:
        if _is_passed_over(path):
            hint = "give the file another name: Spark takes those that begin with `_` or `.` for no data"
            raise Configuration(f"Spark passes over {path}", what=given.name, hint=hint)
    if given.format == "jsonl":
        return _json_rows(spark.read.text(list(given.paths)), 0, columns)
    options: dict[str, Any] = {name: str(value) for name, value in given.options.items()}
    if given.format == "csv":
        options.setdefault("header", "true")
    if given.uri is not None:
        options["url"] = given.uri
    if given.table is not None:
        options["dbtable"] = given.table
    reader = spark.read.format(given.format).options(**options)
    return _looked_up(_plain_rows(reader.load(list(given.paths)) if given.paths else reader.load(), 0, columns))


def _looked_up(rows: DataFrame) -> DataFrame:
    """The same. A client of Spark Connect asks for columns only when it must: here, where the source is to blame."""
    assert rows.columns
    return rows


def _database(spark: SparkSession, source: PlannedSource, columns: Sequence[str]) -> tuple[DataFrame, list[str]]:
    """A table of Postgres: one task reads it over one connection, so that it sees one state of it."""
    from pyspark.sql.pandas.types import from_arrow_schema

    given, table = source.source, source.table
    assert table is not None
    name, uri, address = given.name, str(given.uri), str(given.table)
    wanted = list(columns)
    schema = placed_schema([pa.field(each, widened(table.schema.field(each).type)) for each in wanted])

    def read(_: Batches) -> Batches:
        with carrying():
            for batch in open_table(name, uri, address).raw_batches(wanted, 0, ORIGIN_STEP, Tally()):
                yield shown(batch, schema)

    return spark.range(0, 1, 1, 1).mapInArrow(read, from_arrow_schema(schema)), [table.shown]


def _raw_schema(columns: Sequence[str]) -> str:
    """Raw rows with these columns, for Spark."""
    return ", ".join([f"{AT} bigint", *(f"{quoted(name)} string" for name in (RULE, COLUMN, VALUE, *columns))])


def _plain_rows(found: DataFrame, place: int, columns: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as f

    nothing = f.lit(None).cast("string")
    flaws = [nothing.alias(name) for name in (RULE, COLUMN, VALUE)]
    return found.select(_number(place), *flaws, *(f.col(quoted(name)) for name in columns))


def _number(place: int) -> Column:
    from pyspark.sql import functions as f

    return (f.monotonically_increasing_id() + f.lit(place * ORIGIN_STEP + 1)).alias(AT)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionByName(right), frames)


def _is_passed_over(path: str) -> bool:
    """Whether Spark would take a file for none of its own, and say nothing."""
    name = path.rstrip("/").rpartition("/")[2]
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


def _shown(path: str, directory: Path) -> str:
    given = Path(path)
    return str(given.relative_to(directory) if given.is_relative_to(directory) else given)


def _address(path: str) -> str:
    """A file of this machine, whatever file system Spark takes for its own; patterns in its name are none."""
    escaped = "".join(f"\\{each}" if each in "{}[]*?\\" else each for each in path)
    return f"file://{escaped}"


def quoted(name: str) -> str:
    """A name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"
