"""The data source `omnigraph` of Spark."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from omnigraph_sql.engines.spark.failures import carrying


class OmnigraphSource(DataSource):
    """Reads and writes types of a graph, and reads `.gq` queries.

    It is found by its name, without registration:

        spark.read.format("omnigraph").option("type", "Person").load(uri)
        people.write.format("omnigraph").option("type", "Person").mode("append").save(uri)
    """

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "omnigraph"

    def schema(self) -> StructType:
        """The columns of a read."""
        from omnigraph_sql.spark.options import ReadOptions
        from omnigraph_sql.spark.reading import read_schema

        with carrying():
            return from_arrow_schema(read_schema(ReadOptions.of(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a job."""
        from omnigraph_sql.spark.options import ReadOptions
        from omnigraph_sql.spark.reading import reader_of

        with carrying():
            return reader_of(ReadOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's name)
        """There is none; said here, because Spark would say that something is not implemented."""
        from omnigraph_sql.errors import BadRequest

        with carrying():
            hint = "read it with spark.read, as often as you like; `version` and `commit` are states of the past"
            raise BadRequest("a graph cannot be read as a stream", hint=hint)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer of a job."""
        from omnigraph_sql.spark.options import WriteOptions
        from omnigraph_sql.spark.writing import TableWriter

        with carrying():
            return TableWriter(WriteOptions.of(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 (Spark's name)
        """The writer of a streaming query."""
        from omnigraph_sql.spark.options import StreamOptions
        from omnigraph_sql.spark.writing import StreamWriter

        with carrying():
            return StreamWriter(StreamOptions.of(self.options, overwrite=overwrite), schema)
