"""Where Spark looks for the data source `omnigraph`: it imports every top-level module whose name begins with `pyspark_`."""

from omnigraph_sql.spark.source import OmnigraphSource as DefaultSource

__all__ = ["DefaultSource"]
