"""Arrow data of the caller: tables, readers and data frames, kept as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from datafusion import SessionContext

from omnigraph_sql.engines.foreign.model import Reading
from omnigraph_sql.engines.foreign.views import create_object_view

_TABLE = "rows"


def is_arrow(source: object) -> bool:
    """Whether a source hands out Arrow data."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


@dataclass(frozen=True, repr=False)
class Rows:
    """A foreign table in memory."""

    name: str
    origin: str
    data: pa.Table
    table: Any
    """DataFusion's own table over it."""

    kind = "arrow"
    last_sql = None

    @property
    def shown(self) -> str:
        return f"{self.origin} with {self.data.num_rows} rows in memory"

    @property
    def schema(self) -> pa.Schema:
        schema: pa.Schema = self.data.schema
        return schema

    def provider(self, reading: Reading) -> Any:  # noqa: ARG002 (nobody is asked)
        return self.table

    def expose(self, connection: Any, schema: str, name: str, reading: Reading) -> None:  # noqa: ARG002
        create_object_view(connection, schema, name, self.data)


def keep_rows(name: str, source: Any) -> Rows:
    """A table of rows that are there; a reader is read to its end, once."""
    data = pa.table(source) if hasattr(source, "__arrow_c_stream__") else pa.table(pa.record_batch(source))
    context = SessionContext()
    batches = data.to_batches() or [pa.RecordBatch.from_pylist([], schema=data.schema)]
    context.register_record_batches(_TABLE, [batches])
    origin = f"{type(source).__module__.partition('.')[0]}.{type(source).__name__}"
    return Rows(name, origin, data, context.table_provider(_TABLE))
