"""Runs of pipelines: stage everything, test it, publish it in one commit, or leave nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omnigraph_sql import failpoints
from omnigraph_sql.errors import DataTestFailed, OmnigraphError
from omnigraph_sql.graph import Graph, connect
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.pipeline.engines import Job, Progress, Staging, engine_named
from omnigraph_sql.pipeline.planning import Plan, check_graph, make_plan, run_identity
from omnigraph_sql.pipeline.report import RunReport, SourceCount, TableCount
from omnigraph_sql.pipeline.spec import DataTest, Pipeline
from omnigraph_sql.result import Result
from omnigraph_sql.writes.rejects import Rejects

_SHOWN_ROWS = 5
OnProgress = Callable[[Progress], None]


def run_pipeline(
    pipeline: Pipeline | str | Path,
    *,
    engine: str = "spark",
    branch: str | None = None,
    key: str | None = None,
    master: str | None = None,
    actor: str | None = None,
    progress: OnProgress | None = None,
) -> RunReport:
    """Run a pipeline: everything it declares is published in one commit, or nothing is.

    A run whose key was published before does nothing. What an earlier run of the key had done when it was killed is made use
    of if it was about the same inputs, and removed otherwise.
    `progress` is called from this thread or another with each stage as it begins, and with the rows that were read.
    """
    plan = make_plan(pipeline, engine=engine, branch=branch, key=key)
    runner = engine_named(engine)
    with connect(plan.pipeline.graph, actor=actor) as graph:
        check_graph(plan, graph)
        exists = plan.branch in graph.branches()
        known = graph.published(plan.key, plan.branch) if plan.key is not None and exists else None
        left = None if known is not None else _left(graph, plan)
        if plan.key is not None:
            graph.discard_abandoned(plan.key)
        if known is not None:
            return _report(graph, plan, known)
        run = _Run(graph, plan, actor, _Clock(progress or (lambda _: None)), created=not exists)
        with run.branch():
            staging = left or runner.stage(run.job(master))
            with run.discarding(staging):
                return run.finish(staging)


def _left(graph: Graph, plan: Plan) -> Staging | None:
    """What a run that was killed had staged, and only had to test and publish."""
    wanted = run_identity(graph, plan)
    if plan.key is None or wanted is None:
        return None  # nothing tells whose work it is
    found = graph.take_over(plan.key, lambda notes: bool(notes["run"] == wanted))
    if found is None:
        return None
    load, notes = found
    sources = tuple(SourceCount(**each) for each in notes["sources"])
    return Staging(load, sources, tuple(TableCount(**each) for each in notes["tables"]), resumed=True)


@dataclass
class _Clock:
    """Tells how long stages take, and passes on what happens."""

    listener: OnProgress
    seconds: dict[str, float] = field(default_factory=dict)
    _stage: str | None = None
    _since: float = 0.0

    def tell(self, what: Progress) -> None:
        if what.stage != self._stage:
            self.stop()
            self._stage, self._since = what.stage, time.monotonic()
        self.listener(what)

    def stop(self) -> None:
        if self._stage is not None:
            spent = self.seconds.get(self._stage, 0.0) + time.monotonic() - self._since
            self.seconds[self._stage] = round(spent, 3)
        self._stage = None


@dataclass(frozen=True)
class _Run:
    graph: Graph
    plan: Plan
    actor: str | None
    clock: _Clock
    created: bool

    @contextmanager
    def branch(self) -> Iterator[None]:
        """The branch that rows go to. One that is made for them goes away if they do not come."""
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
    def discarding(self, staging: Staging) -> Iterator[None]:
        """What was staged, until it is published."""
        try:
            yield
        except (Exception, KeyboardInterrupt):
            self.graph.discard(staging.load)
            raise

    def job(self, master: str | None) -> Job:
        rule = self.plan.pipeline.rejects
        if rule is not None and rule.to is not None:
            rule.to.parent.mkdir(parents=True, exist_ok=True)
        rejects = None if rule is None else Rejects(rule.to, rule.limit, "rejects.max")
        return Job(self.graph, self.plan, self.actor, self.plan.pipeline.message, rejects, self.clock.tell, master)

    def finish(self, staging: Staging) -> RunReport:
        """Test and publish."""
        self._note(staging)
        failpoints.hit("pipeline.post_stage")
        self._test(staging)
        failpoints.hit("pipeline.post_tests_pre_publish")
        self.clock.tell(Progress("publish"))
        commit = self.graph.publish(staging.load) if staging.load.tables else None
        if commit is None:
            self.graph.discard(staging.load)  # it has no rows, but it was noted
        self.clock.stop()
        published = tuple(replace(each, published=each.staged if commit else 0) for each in staging.tables)
        return _report(self.graph, self.plan, commit, replace(staging, tables=published), self.clock, created=self.created)

    def _note(self, staging: Staging) -> None:
        """For a run that goes on with this one, if this one is killed."""
        if self.plan.key is not None and staging.load.tables and not staging.resumed:
            counts = {name: [vars(each) for each in getattr(staging, name)] for name in ("sources", "tables")}
            self.graph.note_staged(staging.load, {"run": run_identity(self.graph, self.plan), **counts})

    def _test(self, staging: Staging) -> None:
        tests = self.plan.pipeline.tests
        if not tests:
            return
        self.clock.tell(Progress("test"))
        with self.graph.preview(staging.load) as preview:
            failpoints.hit("pipeline.during_tests")
            for test in tests:
                self.clock.tell(Progress("test", test.name))
                try:
                    rows, count = _found(preview.sql(test.sql))
                except OmnigraphError as error:
                    error.message = f"the test `{test.name}` cannot run: {error.message}"
                    raise
                _check(test, rows, count)


def _found(result: Result) -> tuple[tuple[dict[str, Any], ...], int]:
    """The first rows, and how many there are."""
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
    plan: Plan,
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
        tests=() if staging is None else tuple(each.name for each in plan.pipeline.tests),
        seconds={} if clock is None else clock.seconds,
        resumed=staging is not None and staging.resumed,
    )
