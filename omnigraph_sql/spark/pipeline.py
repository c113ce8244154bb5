"""Pipelines on Spark: sources as DataFrames, mappings as Spark SQL, and one load that all targets are written to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph_sql import ulid
from omnigraph_sql.engines.choosing import require_duckdb
from omnigraph_sql.engines.ingest.files import LINE, Files, Tally, line_batches, raw_batches
from omnigraph_sql.engines.ingest.tables import open_table
from omnigraph_sql.engines.spark.failures import carrying, told
from omnigraph_sql.engines.spark.session import session
from omnigraph_sql.errors import BadRequest, Configuration
from omnigraph_sql.pipeline.engines import Job, Progress, Staging
from omnigraph_sql.pipeline.planning import PlannedSource, PlannedTarget, run_identity
from omnigraph_sql.pipeline.report import SourceCount, TableCount
from omnigraph_sql.pipeline.spec import POSTGRES
from omnigraph_sql.planner.mapping import AT, COLUMN, RAW_ROWS, RULE, VALUE
from omnigraph_sql.spark.ledger import Ledger, open_ledger
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.lifecycle import open_graph
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.remote import discard_remote, stage_remote
from omnigraph_sql.writes.remote_table import ORIGIN_STEP
from omnigraph_sql.writes.unpublished import record

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class SparkEngine:
    """Every target is a job that writes parts of one load; the driver checks them together and stages them."""

    def stage(self, job: Job) -> Staging:
        """Read, map, validate and stage."""
        spark = session(job.master, app_name=f"omnigraph: {job.plan.pipeline.path.name}")
        engine = open_graph(job.graph.uri)
        ledger = open_ledger(engine, _identity(job, engine))
        resumed = bool(ledger.done)
        run = _Run(job, spark, ledger)
        provenance = Provenance("Load", job.actor, job.message, job.plan.key)
        try:
            for number, target in enumerate(job.plan.targets):
                run.target(number, target)
            staged = stage_remote(engine, ledger.load_id, provenance, job.rejects, lambda step: job.progress(Progress(step)))
        except BaseException:
            discard_remote(engine, ledger.load_id)
            raise
        finally:
            if job.rejects is not None:
                job.rejects.deliver()
        if job.plan.key is not None:
            record(engine, staged)
        rejected = Counter() if job.rejects is None else job.rejects.by_table
        rows = {table.table_key: table.rows for table in staged.tables}
        tables = tuple(
            TableCount(key, run.mapped[key], rejected[key], rows.get(key, 0))
            for key in dict.fromkeys(each.target.table_key for each in job.plan.targets)
        )
        sources = tuple(SourceCount(name, *counts) for name, counts in run.sources.items())
        return Staging(staged, sources, tables, resumed)


def _identity(job: Job, engine: Engine) -> list[str] | None:
    """What a run must have in common with this one; a branch that was made anew has not."""
    found = run_identity(job.graph, job.plan)
    return None if found is None else [*found, engine.coordinator.fresh(job.plan.branch).incarnation]


@dataclass
class _Run:
    job: Job
    spark: SparkSession
    ledger: Ledger
    sources: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Rows, and those of them that are malformed."""
    mapped: Counter[str] = field(default_factory=Counter)

    def target(self, number: int, planned: PlannedTarget) -> None:
        """Write a target, unless a run that was killed has done it."""
        if number not in self.ledger.done:
            self.ledger.note(number, *self._write(planned))
        done, source = self.ledger.done[number], planned.target.source
        self.mapped[planned.target.table_key] += done.mapped - done.malformed
        before = self.sources.get(source, (0, 0))
        self.sources[source] = (done.seen, before[1] + done.malformed)
        self.job.progress(Progress("read", source, done.seen))

    def _write(self, planned: PlannedTarget) -> tuple[int, int, int]:
        """Map the rows of a target and write them as parts of the load; rows of the source, malformed and mapped ones."""
        target, plan = planned.target, self.job.plan
        self.job.progress(Progress("read", target.source))
        source = plan.sources[target.source]
        place = f"{plan.pipeline.path}: {target.place}"
        read, given = _Count(), _Count()
        try:
            with told():
                raw, origins = self._raw(source, planned.columns)
                mapped = given.of(self._mapped(planned.sql, read.of(raw)))
                writer = mapped.write.format("omnigraph").mode("append")
                writer.options(
                    type=target.table_key,
                    branch=plan.branch,
                    load_id=self.ledger.load_id,
                    load_mode=plan.mode,
                    collect_rejects=str(self.job.rejects is not None).lower(),
                    origins=json.dumps(origins),
                    is_text=str(source.source.is_text).lower(),
                ).save(self.job.graph.uri)
        except BadRequest as error:
            raise BadRequest(f"{place}: {error.message}", hint=error.hint) from error
        except Exception as error:
            text = _mapping_fault(error)
            if text is None:
                raise
            raise Configuration(
                f"{place}: {text}", what=target.place, hint="look at the expressions of this target"
            ) from error
        rows, malformed = given.after(mapped)
        return read.after(mapped)[0], malformed, rows

    def _mapped(self, sql: str, rows: DataFrame) -> DataFrame:
        """The rows of a mapping. What it reads is part of the statement, so that it needs no name in the session."""
        text = sql.replace("{", "{{").replace("}", "}}")
        return self.spark.sql(f"WITH {_quoted(RAW_ROWS)} AS (SELECT * FROM {{rows}}) {text}", rows=rows)

    def _raw(self, source: PlannedSource, columns: Sequence[str]) -> tuple[DataFrame, list[str]]:
        """The rows of a source as a mapping reads them, and what they came from."""
        given = source.source
        if given.format == POSTGRES:
            return self._database(source, columns)
        if not source.files:
            return self._loaded(source, columns), [given.name]
        names = [_shown(path, self.job.plan.pipeline.path.parent) for path in source.files]
        if given.format == "csv":
            return self._files(source, columns), names
        frames = [self._file(source, path, place, columns) for place, path in enumerate(source.files)]
        return reduce(lambda left, right: left.unionByName(right), frames), names

    def _file(self, source: PlannedSource, path: str, place: int, columns: Sequence[str]) -> DataFrame:
        """One file: Spark splits it, and the numbers of its rows ascend."""
        if source.source.format == "jsonl":
            return _json_rows(self.spark.read.text(_address(path)), place, columns)
        found = self.spark.read.parquet(_address(path))
        return _plain_rows(found, place, columns)

    def _files(self, source: PlannedSource, columns: Sequence[str]) -> DataFrame:
        """Files that cannot be split, because a value may go over several lines: each is read by one task."""
        files = Files(source.source.format, source.files, source.source.options)
        wanted = list(columns)

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for place in batch.column(0).to_pylist():
                    one = Files(files.format, (files.paths[place],), files.options)
                    yield from raw_batches(one, wanted, place, ORIGIN_STEP, Tally())

        count = len(files.paths)
        return self.spark.range(0, count, 1, count).mapInArrow(read, _raw_schema(wanted))

    def _loaded(self, source: PlannedSource, columns: Sequence[str]) -> DataFrame:
        """Whatever Spark can read by itself."""
        given = source.source
        if given.format == "jsonl":
            return _json_rows(self.spark.read.text(list(given.paths)), 0, columns)
        options = {name: str(value) for name, value in given.options.items()}
        if given.format == "csv":
            options.setdefault("header", "true")
        if given.uri is not None:
            options["url"] = given.uri
        if given.table is not None:
            options["dbtable"] = given.table
        reader = self.spark.read.format(given.format).options(**options)
        return _plain_rows(reader.load(list(given.paths)) if given.paths else reader.load(), 0, columns)

    def _database(self, source: PlannedSource, columns: Sequence[str]) -> tuple[DataFrame, list[str]]:
        """A table of Postgres: the driver reads it."""
        given = source.source
        assert given.uri is not None
        assert given.table is not None
        table = open_table(given.name, given.uri, given.table)
        rows = table.raw_batches(columns, 0, ORIGIN_STEP, Tally()).read_all()
        return self.spark.createDataFrame(rows), [table.shown]


class _Count:
    """How many rows go through a place of a job, and how many of them have something wrong; counted while it runs."""

    def __init__(self) -> None:
        from pyspark.sql import Observation

        self._name = f"omnigraph-{ulid.new()}"
        self._observation = Observation(self._name)

    def of(self, rows: DataFrame) -> DataFrame:
        """The same rows, counted."""
        from pyspark.sql import functions as f

        flaws = f.count_if(f.col(RULE).isNotNull()).alias("malformed")
        return rows.observe(self._observation, f.count(f.lit(1)).alias("rows"), flaws)

    def after(self, written: DataFrame) -> tuple[int, int]:
        """What was counted when this was written."""
        found = self._observation.get
        if not found and written.executionInfo is not None:
            # A client of Spark Connect does not look into the parts of a statement; the server tells it all the same.
            found = dict(written.executionInfo.flows)[self._name]
        return found["rows"], found["malformed"]


def _json_rows(lines: DataFrame, place: int, columns: Sequence[str]) -> DataFrame:
    """Lines of JSON as rows. The tasks read them as the engine `local` does: there are many ways to read odd JSON."""
    from pyspark.sql import functions as f

    require_duckdb()
    wanted = tuple(columns)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from omnigraph_sql.engines.ingest.duckdb import json_batches

        with carrying():
            yield from json_batches(line_batches(batches), wanted)

    return lines.select(_number(place), f.col("value").cast("binary").alias(LINE)).mapInArrow(read, _raw_schema(wanted))


def _raw_schema(columns: Sequence[str]) -> str:
    """Raw rows with these columns, for Spark."""
    return ", ".join([f"{AT} bigint", *(f"{_quoted(name)} string" for name in (RULE, COLUMN, VALUE, *columns))])


def _plain_rows(found: DataFrame, place: int, columns: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as f

    nothing = f.lit(None).cast("string")
    flaws = [nothing.alias(name) for name in (RULE, COLUMN, VALUE)]
    return found.select(_number(place), *flaws, *(f.col(_quoted(name)) for name in columns))


def _number(place: int) -> Column:
    from pyspark.sql import functions as f

    return (f.monotonically_increasing_id() + f.lit(place * ORIGIN_STEP + 1)).alias(AT)


def _shown(path: str, directory: Path) -> str:
    given = Path(path)
    return str(given.relative_to(directory) if given.is_relative_to(directory) else given)


def _address(path: str) -> str:
    """A file of this machine, whatever file system Spark takes for its own; patterns in its name are none."""
    escaped = "".join(f"\\{each}" if each in "{}[]*?\\" else each for each in path)
    return f"file://{escaped}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _mapping_fault(error: Exception) -> str | None:
    """What Spark says about an expression that it does not understand."""
    from pyspark.errors import AnalysisException, ParseException

    if isinstance(error, AnalysisException | ParseException):
        return f"the mapping fails: {str(error).strip().splitlines()[0]}"
    return None
