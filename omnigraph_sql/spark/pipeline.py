"""Pipelines on Spark: sources as DataFrames, mappings as Spark SQL, and one load that all targets are written to."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph_sql import ulid
from omnigraph_sql.engines.spark.session import session
from omnigraph_sql.pipeline.engines import Job, Progress, Staging
from omnigraph_sql.pipeline.planning import PlannedTarget, run_identity
from omnigraph_sql.pipeline.report import SourceCount, TableCount
from omnigraph_sql.planner.mapping import RAW_ROWS, RULE
from omnigraph_sql.spark.faults import opening, placed
from omnigraph_sql.spark.ledger import Ledger, open_ledger
from omnigraph_sql.spark.raw import quoted, raw_rows
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.lifecycle import open_graph
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.remote import discard_remote, stage_remote
from omnigraph_sql.writes.unpublished import record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        path = plan.pipeline.path
        read, given = _Count(), _Count()
        with placed(path, planned, source):
            with opening(path, source):
                raw, origins = raw_rows(self.spark, source, planned.columns, path.parent)
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
        rows, malformed = given.after(mapped)
        return read.after(mapped)[0], malformed, rows

    def _mapped(self, sql: str, rows: DataFrame) -> DataFrame:
        """The rows of a mapping. What it reads is part of the statement, so that it needs no name in the session."""
        text = sql.replace("{", "{{").replace("}", "}}")
        return self.spark.sql(f"WITH {quoted(RAW_ROWS)} AS (SELECT * FROM {{rows}}) {text}", rows=rows)


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
