"""Spark: graphs as DataFrames, and loads that Spark writes.

Spark starts a process for each step of a write, and each process imports this package. So the package imports its parts
lazily.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph_sql.engines.spark.error_codec import typed_errors
    from omnigraph_sql.engines.spark.session import session
    from omnigraph_sql.spark.loads import GraphLoad, discard, publish, staged_loads
    from omnigraph_sql.spark.runs import run_pipeline

__all__ = ["GraphLoad", "discard", "publish", "run_pipeline", "session", "staged_loads", "typed_errors"]

_HOMES = {
    "run_pipeline": "omnigraph_sql.spark.runs",
    "session": "omnigraph_sql.engines.spark.session",
    "typed_errors": "omnigraph_sql.engines.spark.error_codec",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "omnigraph_sql.spark.loads")), name)
