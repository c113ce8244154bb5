"""Spark: graphs as DataFrames, and loads that Spark writes.

Spark starts a process for each step of a write, and each of them imports this package: nothing is imported with it that the
step does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph_sql.engines.spark.failures import typed_errors
    from omnigraph_sql.engines.spark.session import session
    from omnigraph_sql.pipeline import run_pipeline
    from omnigraph_sql.spark.loads import GraphLoad, discard, publish, staged_loads

__all__ = ["GraphLoad", "discard", "publish", "run_pipeline", "session", "staged_loads", "typed_errors"]

_HOMES = {
    "run_pipeline": "omnigraph_sql.pipeline",
    "session": "omnigraph_sql.engines.spark.session",
    "typed_errors": "omnigraph_sql.engines.spark.failures",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "omnigraph_sql.spark.loads")), name)
