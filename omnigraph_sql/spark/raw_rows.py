"""The rows of sources as DataFrames, in the form that mappings read (`omnigraph_sql.sqltext.row_mapping`).

Spark reads and splits lines of JSON and Parquet files where it can. A file that Spark would skip, or reads differently from
the engine `local`, is read by one task with the code of that engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph_compiler.diagnostics import listing
from omnigraph_sql.engines.registry import require_duckdb
from omnigraph_sql.engines.spark.error_codec import encoded_errors
from omnigraph_sql.errors import BadRequest, Configuration
from omnigraph_sql.ingest.files import LINE, RecordCounts, SourceFiles, header, line_batches, placed_schema, raw_batches
from omnigraph_sql.ingest.tables import open_table
from omnigraph_sql.pipeline.plan import PlannedSource
from omnigraph_sql.pipeline.spec import POSTGRES
from omnigraph_sql.spark.types import spark_batch, widened_type
from omnigraph_sql.sqltext.row_mapping import AT, COLUMN, RULE, VALUE
from omnigraph_sql.writes.distributed.table import ORIGIN_STEP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".zstd", ".lz4", ".br", ".deflate", ".snappy", ".xz")
"""Suffixes of compressed files. Spark and Arrow know different ones, and can split few of these files."""
Batches = Iterator[pa.RecordBatch]


def raw_rows(
    spark: SparkSession, source: PlannedSource, columns: Sequence[str], directory: Path
) -> tuple[DataFrame, list[str]]:
    """Return the rows of a source, and their origins; files below the directory by their relative paths."""
    declared = source.source
    if declared.format == POSTGRES:
        return _database(spark, source, columns)
    if not source.files:
        return _spark_rows(spark, source, columns), [declared.name]
    names = [_relative(path, directory) for path in source.files]
    read = {"jsonl": _json_files, "csv": _csv_files, "parquet": _parquet_files}[declared.format]
    return read(spark, source, columns), names


def _json_files(spark: SparkSession, source: PlannedSource, columns: Sequence[str]) -> DataFrame:
    """Read the files in their order, which decides which of two rows came first."""

    def is_unsplittable(place: int) -> bool:
        path = source.files[place]
        return _is_hidden(path) or path.lower().endswith(_COMPRESSED)

    frames = []
    for by_tasks, group in groupby(range(len(source.files)), is_unsplittable):
        places = list(group)
        if by_tasks:
            frames.append(_file_per_task(spark, source, places, columns, [pa.string()] * len(columns)))
        else:
            frames += [_json_rows(spark.read.text(_address(source.files[place])), place, columns) for place in places]
    return _union(frames)


def _csv_files(spark: SparkSession, source: PlannedSource, columns: Sequence[str]) -> DataFrame:
    """Read each file in one task: it cannot be split, because a value may span several lines."""
    return _file_per_task(spark, source, range(len(source.files)), columns, [pa.string()] * len(columns))


def _parquet_files(spark: SparkSession, source: PlannedSource, columns: Sequence[str]) -> DataFrame:
    return _union([_parquet(spark, source, place, columns) for place in range(len(source.files))])


def _parquet(spark: SparkSession, source: PlannedSource, place: int, columns: Sequence[str]) -> DataFrame:
    """Read one file. The types and names of columns that nothing reads do not matter."""
    from pyspark.sql.pandas.types import from_arrow_schema

    path = source.files[place]
    schema = header(SourceFiles("parquet", (path,)))
    assert schema is not None
    fields = [_spark_field(schema, name, path) for name in columns]
    lower = [name.lower() for name in schema.names]
    is_clear = all(lower.count(name.lower()) == 1 for name in columns)
    if is_clear and not _is_hidden(path) and not any(_contains(field.type, _is_nanoseconds) for field in fields):
        read_schema = pa.schema([pa.field(field.name, widened_type(field.type)) for field in fields])
        reader = spark.read.schema(from_arrow_schema(read_schema)) if _needs_schema(schema) else spark.read
        return _resolved(_plain_rows(reader.parquet(_address(path)), place, columns))
    return _file_per_task(spark, source, [place], columns, [widened_type(field.type) for field in fields])


def _spark_field(schema: pa.Schema, name: str, path: str) -> pa.Field:
    """Return the field of a column; raise if the file lacks the column, or Spark its type."""
    field = next((schema.field(column) for column in schema.names if column == name), None)
    if field is None:
        matches = [column for column in schema.names if column.lower() == name.lower()]
        if len(matches) != 1:
            raise BadRequest(f"{path} has no column `{name}`", hint=f"there are {listing(schema.names) or 'none'}")
        field = schema.field(matches[0])
    if _contains(field.type, pa.types.is_time):
        hint = "run the pipeline with the engine local, or write the column as a text"
        raise Configuration(
            f"the column `{name}` of {path} holds times of day, which Spark does not read", what=name, hint=hint
        )
    return field


def _needs_schema(schema: pa.Schema) -> bool:
    """True if Spark cannot infer the schema of a file, because of columns that the mapping may not read."""
    names = {name.lower() for name in schema.names}
    return len(names) < len(schema.names) or any(
        _contains(field.type, _is_nanoseconds) or _contains(field.type, pa.types.is_time) for field in schema
    )


def _is_nanoseconds(kind: pa.DataType) -> bool:
    """True for a timestamp in nanoseconds, a unit that Spark lacks."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def _contains(kind: pa.DataType, wanted: Callable[[pa.DataType], bool]) -> bool:
    """True if a type or one of its fields is wanted."""
    return wanted(kind) or any(_contains(kind.field(place).type, wanted) for place in range(kind.num_fields))


def _file_per_task(
    spark: SparkSession, source: PlannedSource, places: Sequence[int], columns: Sequence[str], types: Sequence[pa.DataType]
) -> DataFrame:
    """Read each file in one task, as the engine `local` reads it."""
    from pyspark.sql.pandas.types import from_arrow_schema

    form, paths, options = source.source.format, source.files, source.source.options
    wanted = list(columns)
    schema = placed_schema([pa.field(name, kind) for name, kind in zip(wanted, types, strict=True)])
    if form == "jsonl":
        require_duckdb()

    def read_file(place: int) -> Batches:
        rows = raw_batches(SourceFiles(form, (paths[place],), options), wanted, place, ORIGIN_STEP, RecordCounts())
        if form != "jsonl":
            return (_cast(batch, schema, paths[place]) for batch in rows)
        from omnigraph_sql.engines.duckdb.row_mapper import json_batches

        return json_batches(rows, wanted)

    def read(batches: Batches) -> Batches:
        with encoded_errors():
            for batch in batches:
                for at in batch.column(0).to_pylist():
                    yield from read_file(places[at])

    return spark.range(0, len(places), 1, len(places)).mapInArrow(read, from_arrow_schema(schema))


def _cast(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    try:
        return spark_batch(batch.rename_columns(schema.names), schema)
    except pa.ArrowException as error:
        hint = "run the pipeline with the engine local, or write the file with types that Spark has"
        raise BadRequest(f"{path} cannot be read by Spark: {str(error).splitlines()[0]}", hint=hint) from error


def _json_rows(lines: DataFrame, place: int, columns: Sequence[str]) -> DataFrame:
    """Parse lines of JSON in the tasks, with the parser of the engine `local`, so that both read odd JSON alike."""
    from pyspark.sql import functions as f

    require_duckdb()
    wanted = tuple(columns)

    def read(batches: Batches) -> Batches:
        from omnigraph_sql.engines.duckdb.row_mapper import json_batches

        with encoded_errors():
            yield from json_batches(line_batches(batches), wanted)

    return lines.select(_number(place), f.col("value").cast("binary").alias(LINE)).mapInArrow(read, _raw_schema(wanted))


def _spark_rows(spark: SparkSession, source: PlannedSource, columns: Sequence[str]) -> DataFrame:
    """Read a source with a reader of Spark."""
    declared = source.source
    for path in declared.paths:
        if _is_hidden(path):
            hint = "give the file another name: Spark ignores files whose names begin with `_` or `.`"
            raise Configuration(f"Spark ignores {path}", what=declared.name, hint=hint)
    if declared.format == "jsonl":
        return _json_rows(spark.read.text(list(declared.paths)), 0, columns)
    options: dict[str, Any] = {name: str(value) for name, value in declared.options.items()}
    if declared.format == "csv":
        options.setdefault("header", "true")
    if declared.uri is not None:
        options["url"] = declared.uri
    if declared.table is not None:
        options["dbtable"] = declared.table
    reader = spark.read.format(declared.format).options(**options)
    return _resolved(_plain_rows(reader.load(list(declared.paths)) if declared.paths else reader.load(), 0, columns))


def _resolved(rows: DataFrame) -> DataFrame:
    """Return the same rows. Reading their columns makes a client of Spark Connect resolve them, and report errors, here."""
    assert rows.columns
    return rows


def _database(spark: SparkSession, source: PlannedSource, columns: Sequence[str]) -> tuple[DataFrame, list[str]]:
    """Read a table of Postgres in one task, over one connection, so that all its rows are of one snapshot."""
    from pyspark.sql.pandas.types import from_arrow_schema

    declared, table = source.source, source.table
    assert table is not None
    name, uri, address = declared.name, str(declared.uri), str(declared.table)
    wanted = list(columns)
    schema = placed_schema([pa.field(name, widened_type(table.schema.field(name).type)) for name in wanted])

    def read(_: Batches) -> Batches:
        with encoded_errors():
            for batch in open_table(name, uri, address).raw_batches(wanted, 0, ORIGIN_STEP, RecordCounts()):
                yield spark_batch(batch, schema)

    return spark.range(0, 1, 1, 1).mapInArrow(read, from_arrow_schema(schema)), [table.shown]


def _raw_schema(columns: Sequence[str]) -> str:
    """Return the Spark schema of raw rows with these columns."""
    return ", ".join([f"{AT} bigint", *(f"{quoted(name)} string" for name in (RULE, COLUMN, VALUE, *columns))])


def _plain_rows(rows: DataFrame, place: int, columns: Sequence[str]) -> DataFrame:
    """Return raw rows without flaws, with their numbers."""
    from pyspark.sql import functions as f

    nothing = f.lit(None).cast("string")
    flaws = [nothing.alias(name) for name in (RULE, COLUMN, VALUE)]
    return rows.select(_number(place), *flaws, *(f.col(quoted(name)) for name in columns))


def _number(place: int) -> Column:
    from pyspark.sql import functions as f

    return (f.monotonically_increasing_id() + f.lit(place * ORIGIN_STEP + 1)).alias(AT)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionByName(right), frames)


def _is_hidden(path: str) -> bool:
    """True for a file that Spark silently ignores."""
    name = path.rstrip("/").rpartition("/")[2]
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


def _relative(path: str, directory: Path) -> str:
    file = Path(path)
    return str(file.relative_to(directory) if file.is_relative_to(directory) else file)


def _address(path: str) -> str:
    """Return the address of a file on this machine, whatever Spark's default file system is, with wildcards escaped."""
    escaped = "".join(f"\\{character}" if character in "{}[]*?\\" else character for character in path)
    return f"file://{escaped}"


def quoted(name: str) -> str:
    """Return a quoted identifier of Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"
