"""The functions of a query, as Spark calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph_sql.engines.scope import Bound
from omnigraph_sql.planner.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession, name: str, sent: bytes, meaning: str, bound: Bound) -> None:
    """Make a function of a plan known in a session, under a name."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    spark.udf.register(name, arrow_udf(_called(sent, meaning), spark_type(bound.result)))


def _called(sent: bytes, meaning: str) -> Callable[..., pa.Array]:
    def call(*columns: pa.Array) -> pa.Array:
        # This runs in a worker. What it needs is found there, and only what it is told comes along.
        from omnigraph_sql.engines.spark.working import answer

        return answer(sent, meaning, columns)

    return call
