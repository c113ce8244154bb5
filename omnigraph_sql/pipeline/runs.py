"""Runs of pipelines: stage all targets, test the load, and publish it in one commit; a failed run publishes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omnigraph_sql import failpoints
from omnigraph_sql.arguments import callback, checked, optional, text
from omnigraph_sql.choices import PipelineEngineName
from omnigraph_sql.errors import DataTestFailed, OmnigraphError
from omnigraph_sql.graph import Graph, connect
from omnigraph_sql.graph.resumption import discard_abandoned, note_staged, published_commit, take_over
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.pipeline.engines import Job, PipelineEngine, Progress, Staging, engine_named
from omnigraph_sql.pipeline.plan import PipelinePlan, check_graph, make_plan, pipeline_or_path, run_identity
from omnigraph_sql.pipeline.reject_report import planned_rejects
from omnigraph_sql.pipeline.report import RunReport, SourceCount, TableCount
from omnigraph_sql.pipeline.spec import DataTest, Pipeline
from omnigraph_sql.result import Result

_SHOWN_ROWS = 5
OnProgress = Callable[[Progress], None]


@checked(pipeline=pipeline_or_path, engine=optional(text), master=optional(text), progress=optional(callback))
def run_pipeline(
    pipeline: Pipeline | str | Path,
    *,
    engine: PipelineEngineName | None = None,
    branch: str | None = None,
    key: str | None = None,
    master: str | None = None,
    actor: str | None = None,
    progress: OnProgress | None = None,
    checks: Any = None,
) -> RunReport:
    """Run a pipeline: everything it declares is published in one commit, or nothing is.

    A run whose key was published before does nothing. A run of the same key that was killed is resumed if its inputs have
    not changed; its remains are removed otherwise.

    Args:
        pipeline: the pipeline, or the path of its file.
        engine: `local` or `spark`; without it `local`, unless a `master` or a cluster in the environment is named, or only
            Spark reads a source.
        branch: the branch that gets the rows, in place of the one in the file.
        key: the idempotency key, in place of the one in the file.
        master: where Spark runs, as for `og.spark.session`.
        actor: who runs it.
        progress: called from this thread or another with each stage as it begins, and with the rows read so far.
        checks: reads that must return no row on the graph as it will be, as for `Graph.merge`; they run after the tests of
            the pipeline.

    Returns:
        What the run did.

    Raises:
        BadRequest: an argument or expression is not valid.
        Configuration: the file is not valid, or the engine is not installed.
        DataTestFailed: a test of the data or a check returned rows.
        NotFound: the graph, the branch, the file, or a file of a source is missing.
        ValidationFailed: rows break a rule of the schema, and no more may be rejected.

    Example:
        >>> report = og.pipeline.run_pipeline("pipeline.yaml")
        >>> [(table.table_key, table.published) for table in report.tables]
        [('node:Port', 1)]
    """
    chosen: PipelineEngineName | None = "spark" if engine is None and master is not None else engine
    plan = make_plan(pipeline, engine=chosen, branch=branch, key=key)
    runner = engine_named(plan.engine)
    with connect(plan.pipeline.graph, actor=actor) as graph:
        check_graph(plan, graph)
        exists = plan.branch in graph.branches()
        published = published_commit(graph, plan.key, plan.branch) if plan.key is not None and exists else None
        resumable = None if published is not None else _resumable(graph, plan)
        if plan.key is not None:
            discard_abandoned(graph, plan.key)
        if published is not None:
            return _report(graph, plan, published)
        run = _Run(
            graph=graph,
            plan=plan,
            actor=actor,
            clock=_Clock(progress or (lambda _: None)),
            checks=checks,
            created=not exists,
        )
        with run.branch_for_load():
            staging = resumable or run.stage(runner, master)
            with run.discarded_on_failure(staging):
                return run.finish(staging)


def _resumable(graph: Graph, plan: PipelinePlan) -> Staging | None:
    """Return the staged load of a killed run that still has to be tested and published."""
    wanted = run_identity(graph, plan)
    if plan.key is None or wanted is None:
        return None  # the staged load cannot be matched to a run
    taken_over = take_over(graph, plan.key, lambda notes: bool(notes["run"] == wanted))
    if taken_over is None:
        return None
    load, notes = taken_over
    sources = tuple(SourceCount(**count) for count in notes["sources"])
    return Staging(load, sources, tuple(TableCount(**count) for count in notes["tables"]), resumed=True)


@dataclass
class _Clock:
    """Measures the duration of stages, and forwards progress to the listener."""

    listener: OnProgress
    seconds: dict[str, float] = field(default_factory=dict)
    _stage: str | None = None
    _since: float = 0.0

    def report(self, progress: Progress) -> None:
        if progress.stage != self._stage:
            self.stop()
            self._stage, self._since = progress.stage, time.monotonic()
        self.listener(progress)

    def stop(self) -> None:
        if self._stage is not None:
            spent = self.seconds.get(self._stage, 0.0) + time.monotonic() - self._since
            self.seconds[self._stage] = round(spent, 3)
        self._stage = None


@dataclass(frozen=True, kw_only=True)
class _Run:
    graph: Graph
    plan: PipelinePlan
    actor: str | None
    clock: _Clock
    checks: Any
    created: bool

    @contextmanager
    def branch_for_load(self) -> Iterator[None]:
        """Create the branch of the load if it is missing, and delete it again if the run fails."""
        base = self.plan.pipeline.base
        if self.created and base is not None:
            self.graph.create_branch(self.plan.branch, base)
        try:
            yield
        except (Exception, KeyboardInterrupt):
            if self.created:
                self.graph.delete_branch(self.plan.branch)
            raise

    @contextmanager
    def discarded_on_failure(self, staging: Staging) -> Iterator[None]:
        """Discard the staged load if it cannot be published."""
        try:
            yield
        except (Exception, KeyboardInterrupt):
            self.graph.discard(staging.load)
            raise

    def stage(self, runner: PipelineEngine, master: str | None) -> Staging:
        """Stage all targets with the engine, and report the rejected rows."""
        rejects = planned_rejects(self.plan)
        job = Job(
            graph=self.graph,
            plan=self.plan,
            actor=self.actor,
            message=self.plan.pipeline.message,
            rejects=rejects,
            progress=self.clock.report,
            master=master,
        )
        try:
            return runner.stage(job)
        finally:
            if rejects is not None:
                rejects.discard()

    def finish(self, staging: Staging) -> RunReport:
        """Test and publish the staged load."""
        self._note(staging)
        failpoints.hit("pipeline.post_stage")
        self._test(staging)
        failpoints.hit("pipeline.post_tests_pre_publish")
        self.clock.report(Progress("publish"))
        commit = self.graph.publish(staging.load, checks=self.checks) if staging.load.tables else None
        if commit is None:
            self.graph.discard(staging.load)  # it has no rows, but it was noted
        self.clock.stop()
        published = tuple(replace(count, published=count.staged if commit else 0) for count in staging.tables)
        return _report(self.graph, self.plan, commit, replace(staging, tables=published), self.clock, created=self.created)

    def _note(self, staging: Staging) -> None:
        """Note the counts beside the load, for a run that resumes this one if it is killed."""
        if self.plan.key is not None and staging.load.tables and not staging.resumed:
            counts = {name: [vars(count) for count in getattr(staging, name)] for name in ("sources", "tables")}
            note_staged(self.graph, staging.load, {"run": run_identity(self.graph, self.plan), **counts})

    def _test(self, staging: Staging) -> None:
        tests = self.plan.pipeline.tests
        if not tests:
            return
        self.clock.report(Progress("test"))
        with self.graph.preview(staging.load) as preview:
            failpoints.hit("pipeline.during_tests")
            for test in tests:
                self.clock.report(Progress("test", test.name))
                try:
                    rows, count = _first_rows(preview.sql(test.sql))
                except OmnigraphError as error:
                    error.message = f"the test `{test.name}` cannot run: {error.message}"
                    raise
                _check(test, rows, count)


def _first_rows(result: Result) -> tuple[tuple[dict[str, Any], ...], int]:
    """Return the first rows of a result, and the number of all rows."""
    rows: list[dict[str, Any]] = []
    count = 0
    for batch in result:
        rows += batch.slice(0, _SHOWN_ROWS - len(rows)).to_pylist()
        count += batch.num_rows
    return tuple(rows), count


def _check(test: DataTest, rows: tuple[dict[str, Any], ...], count: int) -> None:
    if count:
        noun = "row" if count == 1 else "rows"
        shown = "\n".join(f"  {row}" for row in rows)
        more = f"\n  … and {count - len(rows)} more" if count > len(rows) else ""
        text = f"the test `{test.name}` found {count} {noun} that must not be there; nothing was published\n{shown}{more}"
        raise DataTestFailed(text, test=test.name, rows=rows, count=count, hint="correct the data, the mapping or the test")


def _report(
    graph: Graph,
    plan: PipelinePlan,
    commit: Commit | None,
    staging: Staging | None = None,
    clock: _Clock | None = None,
    *,
    created: bool = False,
) -> RunReport:
    rule = plan.pipeline.rejects
    return RunReport(
        graph=graph.uri,
        branch=plan.branch,
        branch_created=created,
        mode=plan.mode,
        engine=plan.engine,
        key=plan.key,
        replayed=staging is None,
        commit=commit,
        sources=() if staging is None else staging.sources,
        tables=() if staging is None else staging.tables,
        rejected=0 if staging is None else staging.load.rejected,
        rejects=None if rule is None or rule.to is None or staging is None else str(rule.to),
        tests=() if staging is None else tuple(test.name for test in plan.pipeline.tests),
        seconds={} if clock is None else clock.seconds,
        resumed=staging is not None and staging.resumed,
        warnings=() if staging is None else staging.load.warnings,
    )
