"""Pipelines on one machine: DuckDB maps the rows, and the loader of the graph validates and stages them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from omnigraph_sql.engines.duckdb.row_mapper import mapped_batches
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.ingest.files import RecordCounts, SourceFiles
from omnigraph_sql.pipeline.engines import Job, Progress, Staging
from omnigraph_sql.pipeline.plan import PlannedSource, PlannedTarget
from omnigraph_sql.pipeline.report import SourceCount, TableCount
from omnigraph_sql.sqltext.row_mapping import RULE
from omnigraph_sql.writes.readers import Origin, Origins, PlacedTable, PlacedTables
from omnigraph_sql.writes.readers.model import ORIGIN_RECORDS


@dataclass
class _Run:
    """The counts of a run, updated while rows are read."""

    job: Job
    origins: list[Origin] = field(default_factory=list)
    sources: dict[str, int] = field(default_factory=dict)
    malformed: Counter[str] = field(default_factory=Counter)
    mapped: Counter[str] = field(default_factory=Counter)

    def tables(self) -> Generator[tuple[str, PlacedTable]]:
        """Yield the rows of each target; they are read once the target before is done."""
        for planned in self.job.plan.targets:
            source = self.job.plan.sources[planned.target.source]
            first = len(self.origins)
            self.origins += _origins(source, self.job.plan.pipeline.path.parent)
            tally = RecordCounts()
            raw = source.raw_batches(planned.columns, first, ORIGIN_RECORDS, tally)
            with self._errors_named(planned), mapped_batches(planned.sql, raw, source.prepare(planned.columns)) as rows:
                counted = pa.RecordBatchReader.from_batches(rows.schema, self._counted(rows, planned, tally))
                yield planned.target.table_key, PlacedTable(counted, source.source.is_text)
            self.sources[source.source.name] = tally.rows

    @contextmanager
    def _errors_named(self, planned: PlannedTarget) -> Iterator[None]:
        """Name the target in errors of its mapping or data."""
        try:
            yield
        except BadRequest as error:
            place = f"{self.job.plan.pipeline.path}: `{planned.target.place}`"
            raise BadRequest(f"{place}: {error.message}", hint=error.hint) from error

    def _counted(self, rows: pa.RecordBatchReader, planned: PlannedTarget, tally: RecordCounts) -> Iterator[pa.RecordBatch]:
        target = planned.target
        while True:
            with self._errors_named(planned):
                batch = next(rows, None)
            if batch is None:
                return
            malformed = batch.num_rows - batch.column(RULE).null_count
            self.malformed[target.source] += malformed
            self.mapped[target.table_key] += batch.num_rows - malformed
            self.job.progress(Progress("read", target.source, tally.rows))
            yield batch


def _origins(source: PlannedSource, directory: Path) -> list[Origin]:
    """Return the origins that rejects name: files below the directory of the pipeline by their relative paths."""
    if source.table is not None:
        return [Origin(source.table.shown, "row")]
    unit = SourceFiles(source.source.format, source.files).unit
    files = (Path(file) for file in source.files)
    return [Origin(str(path.relative_to(directory) if path.is_relative_to(directory) else path), unit) for path in files]


class LocalPipelineEngine:
    """Runs a pipeline in this process, as one load."""

    def stage(self, job: Job) -> Staging:
        """Read, map, validate and stage the rows of all targets."""
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
            for key in dict.fromkeys(planned.target.table_key for planned in plan.targets)
        )
        sources = tuple(SourceCount(name, count, run.malformed[name]) for name, count in run.sources.items())
        return Staging(staged, sources, counts)
