"""The functions of a query as Arrow UDFs of Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph_sql.binding.context import BoundFunction
from omnigraph_sql.planner.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession, name: str, payload: bytes, function: str, bound: BoundFunction) -> None:
    """Register a function of a plan in a session."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    spark.udf.register(name, arrow_udf(_remote_call(payload, function), spark_type(bound.result)))


def _remote_call(payload: bytes, function: str) -> Callable[..., pa.Array]:
    def call(*columns: pa.Array) -> pa.Array:
        # This runs in a worker, which imports the package itself; only the closure is pickled.
        from omnigraph_sql.engines.spark.worker import call_function

        return call_function(payload, function, columns)

    return call
