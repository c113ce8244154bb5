"""Foreign tables over Arrow data of the caller: tables, readers and data frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph_sql.errors import BadRequest


def is_arrow(source: object) -> bool:
    """True if a source exports Arrow data."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


@dataclass(frozen=True, repr=False, eq=False)
class ArrowTable:
    """A foreign table in memory."""

    name: str
    origin: str
    data: pa.Table

    kind = "arrow"
    last_sql = None

    @property
    def shown(self) -> str:
        return f"{self.origin} with {self.data.num_rows} rows in memory"

    @property
    def schema(self) -> pa.Schema:
        schema: pa.Schema = self.data.schema
        return schema


def open_arrow(name: str, source: Any) -> ArrowTable:
    """Create a foreign table from Arrow data; a reader is read to its end."""
    try:
        data = pa.table(source) if hasattr(source, "__arrow_c_stream__") else pa.table(pa.record_batch(source))
    except Exception as error:
        text = f"the rows of a {type(source).__name__} cannot be read: {type(error).__name__}"
        raise BadRequest(text, hint="give a table, a data frame, or a stream of record batches that can be read") from error
    origin = f"{type(source).__module__.partition('.')[0]}.{type(source).__name__}"
    return ArrowTable(name, origin, data)
