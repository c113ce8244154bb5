"""The process that Spark forks its Python workers from, with our packages imported already.

Each step of a query that calls our functions has workers of its own. To import the packages takes each of them longer than
most of what they are asked. Importing starts no thread that a fork would miss; what does is done in the workers.

A worker looks for garbage after every task, among everything that was ever imported, which can take as long as a small
task: what is there before the fork is left out of that.
"""

from __future__ import annotations

import gc
import warnings

import pyspark.worker  # noqa: F401 (what Spark imports after the fork otherwise)
from pyspark.daemon import manager

import omnigraph_sql.engines.spark.working
import omnigraph_sql.spark.reading
import omnigraph_sql.spark.writing  # noqa: F401

if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    gc.collect()
    gc.freeze()
    manager()
