"""Spark: graphs as DataFrames, and loads that Spark writes.

Importing `pyspark` takes its time, so nothing of it is imported before it is needed.
"""

from __future__ import annotations

from omnigraph_sql.engines.spark.session import session
from omnigraph_sql.pipeline import run_pipeline
from omnigraph_sql.spark.loads import GraphLoad, discard, publish, staged_loads

__all__ = ["GraphLoad", "discard", "publish", "run_pipeline", "session", "staged_loads"]
