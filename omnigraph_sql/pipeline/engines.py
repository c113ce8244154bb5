"""The protocol of a pipeline engine, and the engines by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from omnigraph_sql.errors import Configuration
from omnigraph_sql.graph import Graph
from omnigraph_sql.pipeline.plan import PipelinePlan
from omnigraph_sql.pipeline.report import SourceCount, TableCount
from omnigraph_sql.writes.load.rejects import Rejects
from omnigraph_sql.writes.load.staged_load import StagedLoad

_ENGINES = {
    "local": "omnigraph_sql.pipeline.local:LocalPipelineEngine",
    "spark": "omnigraph_sql.spark.pipeline:SparkPipelineEngine",
}
"""Imported on first use: the room of Spark's engine is above this one."""


@dataclass(frozen=True)
class Progress:
    """An event of a run: a stage has begun, or rows were read."""

    stage: str
    """read, validate, stage, test or publish."""
    detail: str = ""
    rows: int | None = None
    """The number of rows read so far."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The work of an engine: to stage all targets of a plan as one validated load. Nothing becomes visible."""

    graph: Graph
    plan: PipelinePlan
    actor: str | None
    message: str | None
    rejects: Rejects | None
    """Collects rejected rows up to a limit. The engine passes it to `Graph.stage`, or delivers it itself in every case.
    None: the first faulty row fails the run."""
    progress: Callable[[Progress], None]
    master: str | None = None
    """The master of Spark."""


@dataclass(frozen=True)
class Staging:
    """The staged load of a run, with its counts."""

    load: StagedLoad
    sources: tuple[SourceCount, ...]
    tables: tuple[TableCount, ...]
    resumed: bool = False
    """True if the run resumed the work of a killed one."""


class PipelineEngine(Protocol):
    """Reads sources, maps and validates their rows, and stages them.

    It calls `job.progress` with the stages read, validate and stage as each begins. A cleanup removes whatever a failed run
    leaves behind. The runner tests the staged load, then publishes or discards it.
    """

    def stage(self, job: Job) -> Staging:
        """Stage all targets as one load, with `job.plan.key` as its idempotency key."""


def engine_named(name: str) -> PipelineEngine:
    """Return an engine. Raises `Configuration` if it is not installed."""
    module, _, attribute = _ENGINES[name].partition(":")
    try:
        engine_class: Any = getattr(import_module(module), attribute)
    except ImportError as error:
        if error.name is not None and not module.startswith(error.name):
            text = f"the engine {name} needs the package `{error.name}`, which is not installed"
            raise Configuration(text, what=name, hint=f"run pip install 'omnigraph-sql[{_EXTRAS[name]}]'") from None
        text = f"this release does not run pipelines with the engine {name}"
        raise Configuration(text, what=name, hint="use the engine local") from None
    engine: PipelineEngine = engine_class()
    return engine


_EXTRAS = {"local": "duckdb", "spark": "spark"}
