"""Pipelines on Spark: sources as DataFrames, mappings as Spark SQL, and one load that all targets are written to."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph_sql import ulid
from omnigraph_sql.engines.spark.session import session
from omnigraph_sql.pipeline.engines import Job, Progress, Staging
from omnigraph_sql.pipeline.plan import PlannedTarget, run_identity
from omnigraph_sql.pipeline.report import SourceCount, TableCount
from omnigraph_sql.spark.ledger import Ledger, open_ledger
from omnigraph_sql.spark.pipeline_errors import source_errors, target_errors
from omnigraph_sql.spark.raw_rows import quoted, raw_rows
from omnigraph_sql.sqltext.row_mapping import RAW_ROWS, RULE
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.lifecycle import open_graph
from omnigraph_sql.writes.distributed.load import discard_remote, stage_remote
from omnigraph_sql.writes.load.abandoned_loads import discard, record
from omnigraph_sql.writes.load.loads import warn_of
from omnigraph_sql.writes.operation import Provenance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkPipelineEngine:
    """Runs every target as a job that writes parts of one load. The driver checks all parts, and stages the load."""

    def stage(self, job: Job) -> Staging:
        """Read, map, validate and stage the rows of all targets."""
        spark = session(job.master, app_name=f"omnigraph: {job.plan.pipeline.path.name}")
        store = open_graph(job.graph.uri)
        ledger = open_ledger(store, _identity(job, store))
        resumed = bool(ledger.done)
        run = _Run(job, spark, ledger)
        provenance = Provenance("Load", job.actor, job.message, job.plan.key)
        with nullcontext() if job.rejects is None else job.rejects.delivered():
            try:
                for number, target in enumerate(job.plan.targets):
                    run.target(number, target)
                on_step = lambda step: job.progress(Progress(step))  # noqa: E731
                staged = stage_remote(store, ledger.load_id, provenance, job.rejects, on_step)
            except BaseException:
                discard_remote(store, ledger.load_id)
                raise
        if job.rejects is not None and job.rejects.problem is not None:
            discard(store, staged)
            job.rejects.require_delivered()
        if job.plan.key is not None:
            record(store, staged)
        warn_of(staged.warnings)
        rejected = Counter() if job.rejects is None else job.rejects.by_table
        rows = {table.table_key: table.rows for table in staged.tables}
        tables = tuple(
            TableCount(key, run.mapped[key], rejected[key], rows.get(key, 0))
            for key in dict.fromkeys(planned.target.table_key for planned in job.plan.targets)
        )
        sources = tuple(SourceCount(name, *counts) for name, counts in run.sources.items())
        return Staging(staged, sources, tables, resumed)


def _identity(job: Job, store: GraphStore) -> list[str] | None:
    """Return the values that a run must share with this one to be resumed, the incarnation of the branch among them."""
    identity = run_identity(job.graph, job.plan)
    return None if identity is None else [*identity, store.coordinator.fresh(job.plan.branch).incarnation]


@dataclass
class _Run:
    job: Job
    spark: SparkSession
    ledger: Ledger
    sources: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The numbers of rows and of malformed rows of each source."""
    mapped: Counter[str] = field(default_factory=Counter)

    def target(self, number: int, planned: PlannedTarget) -> None:
        """Write a target, unless the resumed run has written it."""
        if number not in self.ledger.done:
            self.ledger.note(number, *self._write(planned))
        done, source = self.ledger.done[number], planned.target.source
        self.mapped[planned.target.table_key] += done.mapped - done.malformed
        before = self.sources.get(source, (0, 0))
        self.sources[source] = (done.seen, before[1] + done.malformed)
        self.job.progress(Progress("read", source, done.seen))

    def _write(self, planned: PlannedTarget) -> tuple[int, int, int]:
        """Map and write the rows of a target. Return the numbers of raw, malformed and mapped rows."""
        target, plan = planned.target, self.job.plan
        self.job.progress(Progress("read", target.source))
        source = plan.sources[target.source]
        path = plan.pipeline.path
        raw_count, mapped_count = _RowCount(), _RowCount()
        with target_errors(path, planned, source):
            with source_errors(path, source):
                raw, origins = raw_rows(self.spark, source, planned.columns, path.parent)
            mapped = mapped_count.observe(self._mapped(planned.sql, raw_count.observe(raw)))
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
        rows, malformed = mapped_count.result(mapped)
        return raw_count.result(mapped)[0], malformed, rows

    def _mapped(self, sql: str, rows: DataFrame) -> DataFrame:
        """Return the mapped rows. The statement embeds the raw rows, so that they need no name in the session."""
        text = sql.replace("{", "{{").replace("}", "}}")
        return self.spark.sql(f"WITH {quoted(RAW_ROWS)} AS (SELECT * FROM {{rows}}) {text}", rows=rows)


class _RowCount:
    """Counts the rows and malformed rows that pass a point of a job, while the job runs."""

    def __init__(self) -> None:
        from pyspark.sql import Observation

        self._name = f"omnigraph-{ulid.new()}"
        self._observation = Observation(self._name)

    def observe(self, rows: DataFrame) -> DataFrame:
        """Return the same rows, observed."""
        from pyspark.sql import functions as f

        flaws = f.count_if(f.col(RULE).isNotNull()).alias("malformed")
        return rows.observe(self._observation, f.count(f.lit(1)).alias("rows"), flaws)

    def result(self, written: DataFrame) -> tuple[int, int]:
        """Return the numbers of rows and of malformed rows, after the DataFrame was written."""
        metrics = self._observation.get
        if not metrics and written.executionInfo is not None:
            # A client of Spark Connect finds no observation inside a statement, but the server sends its metrics.
            metrics = dict(written.executionInfo.flows)[self._name]
        return metrics["rows"], metrics["malformed"]
