"""Pipelines on one machine: DuckDB maps the rows, and the loader of the graph validates and stages them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from omnigraph_sql.engines.ingest.duckdb import mapped_batches
from omnigraph_sql.engines.ingest.files import Files, Tally
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.pipeline.engines import Job, Progress, Staging
from omnigraph_sql.pipeline.planning import PlannedSource, PlannedTarget
from omnigraph_sql.pipeline.report import SourceCount, TableCount
from omnigraph_sql.planner.mapping import RULE
from omnigraph_sql.writes.reading import Origin, Origins, Placed, PlacedTables
from omnigraph_sql.writes.reading.model import ORIGIN_RECORDS


@dataclass
class _Run:
    """What is counted while rows are read."""

    job: Job
    origins: list[Origin] = field(default_factory=list)
    sources: dict[str, int] = field(default_factory=dict)
    malformed: Counter[str] = field(default_factory=Counter)
    mapped: Counter[str] = field(default_factory=Counter)

    def tables(self) -> Generator[tuple[str, Placed]]:
        """The rows of each target, read when the one before is done."""
        for planned in self.job.plan.targets:
            source = self.job.plan.sources[planned.target.source]
            first = len(self.origins)
            self.origins += _origins(source, self.job.plan.pipeline.path.parent)
            tally = Tally()
            raw = source.raw_batches(planned.columns, first, ORIGIN_RECORDS, tally)
            with self._placed(planned), mapped_batches(planned.sql, raw, source.prepare(planned.columns)) as rows:
                counted = pa.RecordBatchReader.from_batches(rows.schema, self._counted(rows, planned, tally))
                yield planned.target.table_key, Placed(counted, source.source.is_text)
            self.sources[source.source.name] = tally.rows

    @contextmanager
    def _placed(self, planned: PlannedTarget) -> Iterator[None]:
        """What is wrong with the mapping or the data inside belongs to a target."""
        try:
            yield
        except BadRequest as error:
            place = f"{self.job.plan.pipeline.path}: `{planned.target.place}`"
            raise BadRequest(f"{place}: {error.message}", hint=error.hint) from error

    def _counted(self, rows: pa.RecordBatchReader, planned: PlannedTarget, tally: Tally) -> Iterator[pa.RecordBatch]:
        target = planned.target
        while True:
            with self._placed(planned):
                batch = next(rows, None)
            if batch is None:
                return
            malformed = batch.num_rows - batch.column(RULE).null_count
            self.malformed[target.source] += malformed
            self.mapped[target.table_key] += batch.num_rows - malformed
            self.job.progress(Progress("read", target.source, tally.rows))
            yield batch


def _origins(source: PlannedSource, directory: Path) -> list[Origin]:
    """What rejects call the files of a source: paths from the directory of the pipeline, where they are below it."""
    if source.table is not None:
        return [Origin(source.table.shown, "row")]
    unit = Files(source.source.format, source.files).unit
    paths = (Path(path) for path in source.files)
    return [Origin(str(each.relative_to(directory) if each.is_relative_to(directory) else each), unit) for each in paths]


class LocalEngine:
    """One process, one load."""

    def stage(self, job: Job) -> Staging:
        """Read, map, validate and stage."""
        run = _Run(job)
        plan = job.plan
        with closing(run.tables()) as tables:
            staged = job.graph.stage(
                PlacedTables(tables, Origins(run.origins)),
                mode=plan.mode,
                branch=plan.branch,
                actor=job.actor,
                message=job.message,
                idempotency_key=plan.key,
                rejects=job.rejects,
                on_step=lambda step: job.progress(Progress(step)),
            )
        rejected = Counter() if job.rejects is None else job.rejects.by_table
        rows = {table.table_key: table.rows for table in staged.tables}
        counts = tuple(
            TableCount(key, run.mapped[key], rejected[key], rows.get(key, 0))
            for key in dict.fromkeys(each.target.table_key for each in plan.targets)
        )
        sources = tuple(SourceCount(name, count, run.malformed[name]) for name, count in run.sources.items())
        return Staging(staged, sources, counts)
