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

from omnigraph_sql.engines.spark.error_codec import encoded_errors


class OmnigraphSource(DataSource):
    """Reads and writes types of a graph, and reads `.gq` queries.

    Spark finds it by its name, without registration:

        spark.read.format("omnigraph").option("type", "Person").load(uri)
        people.write.format("omnigraph").option("type", "Person").mode("append").save(uri)
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "omnigraph"

    def schema(self) -> StructType:
        """Return the columns of a read."""
        from omnigraph_sql.spark.options import ReadOptions
        from omnigraph_sql.spark.reader import read_schema

        with encoded_errors():
            return from_arrow_schema(read_schema(ReadOptions.of(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a job."""
        from omnigraph_sql.spark.options import ReadOptions
        from omnigraph_sql.spark.reader import reader_of

        with encoded_errors():
            return reader_of(ReadOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's name)
        """Refuse to read a stream, with a clearer error than Spark's."""
        from omnigraph_sql.errors import BadRequest

        with encoded_errors():
            hint = "read it with spark.read, as often as you like; `version` and `commit` are states of the past"
            raise BadRequest("a graph cannot be read as a stream", hint=hint)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a job."""
        from omnigraph_sql.spark.options import WriteOptions
        from omnigraph_sql.spark.writer import TableWriter

        with encoded_errors():
            return TableWriter(WriteOptions.of(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 (Spark's name)
        """Return the writer of a streaming query."""
        from omnigraph_sql.spark.options import StreamOptions
        from omnigraph_sql.spark.writer import StreamWriter

        with encoded_errors():
            return StreamWriter(StreamOptions.of(self.options, overwrite=overwrite), schema)
