"""What a pipeline needs of an engine, and the engines by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from omnigraph_sql.errors import Configuration
from omnigraph_sql.graph import Graph
from omnigraph_sql.pipeline.planning import Plan
from omnigraph_sql.pipeline.report import SourceCount, TableCount
from omnigraph_sql.writes.rejects import Rejects
from omnigraph_sql.writes.staged import StagedLoad

_PLACES = {"local": "omnigraph_sql.pipeline.local:LocalEngine", "spark": "omnigraph_sql.spark.pipeline:SparkEngine"}
"""Looked up when an engine is asked for: Spark's is a door of its own, which nothing below it imports."""


@dataclass(frozen=True)
class Progress:
    """Something that a run has come to."""

    stage: str
    """read, validate, stage, test or publish."""
    detail: str = ""
    rows: int | None = None
    """Rows that were read so far."""


@dataclass(frozen=True)
class Job:
    """What an engine has to stage: all targets of a plan as one load, validated, with nothing visible."""

    graph: Graph
    plan: Plan
    actor: str | None
    message: str | None
    rejects: Rejects | None
    """Takes rejected rows and knows how many may be; it is given to `Graph.stage`, or delivered by the engine, whatever
    happens. None: the first faulty row fails the run."""
    progress: Callable[[Progress], None]
    master: str | None = None
    """Where Spark runs."""


@dataclass(frozen=True)
class Staging:
    """What an engine staged."""

    load: StagedLoad
    sources: tuple[SourceCount, ...]
    tables: tuple[TableCount, ...]
    resumed: bool = False
    """Whether it went on with what a run that was killed had done."""


class PipelineEngine(Protocol):
    """Reads sources, maps and validates their rows, and stages them.

    It calls `job.progress` with the stages read, validate and stage as each begins. What fails leaves nothing behind that
    cleaning up does not reclaim. The runner tests and publishes what it returns, or discards it.
    """

    def stage(self, job: Job) -> Staging:
        """Stage everything as one load, with `job.plan.key` as its idempotency key."""


def engine_named(name: str) -> PipelineEngine:
    """An engine. Raises `Configuration` if it is not installed."""
    module, _, attribute = _PLACES[name].partition(":")
    try:
        found: Any = getattr(import_module(module), attribute)
    except ImportError as error:
        if error.name is not None and not module.startswith(error.name):
            text = f"the engine {name} needs the package `{error.name}`, which is not installed"
            raise Configuration(text, what=name, hint=f"run pip install 'omnigraph-sql[{_EXTRAS[name]}]'") from None
        text = f"this release does not run pipelines with the engine {name}"
        raise Configuration(text, what=name, hint="use the engine local") from None
    made: PipelineEngine = found()
    return made


_EXTRAS = {"local": "duckdb", "spark": "spark"}
