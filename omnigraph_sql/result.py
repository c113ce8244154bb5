"""Results of read queries: Arrow first; rows, data frames and JSON on demand."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

_SAFE = 2**53 - 1


@dataclass(frozen=True)
class Result:
    """The rows of a query and the commit they were read from."""

    table: pa.Table
    graph_commit_id: str
    query_name: str = ""
    target: str = "main"

    @property
    def columns(self) -> list[str]:
        """Column names, in the order of the query's `return`."""
        return list(self.table.column_names)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self.table.to_batches()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as Python values."""
        return [dict(zip(self.columns, row, strict=True)) for row in self._rows()]

    def to_pandas(self) -> Any:
        """The rows as a pandas data frame."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """The rows as a polars data frame."""
        import polars

        return polars.from_arrow(self.table)

    def to_json(self, *, javascript_safe: bool = False) -> list[dict[str, Any]]:
        """The rows as JSON values; with `javascript_safe`, numbers that a double cannot hold become texts."""
        return [
            {name: _json(value, javascript_safe) for name, value in zip(self.columns, row, strict=True)}
            for row in self._rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        """The rows with what was asked and read."""
        return {
            "query_name": self.query_name,
            "target": self.target,
            "row_count": len(self),
            "columns": self.columns,
            "rows": self.to_json(),
            "graph_commit_id": self.graph_commit_id,
        }

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        values = [column.to_pylist() for column in self.table.columns]
        return zip(*values, strict=True) if values else iter(())


def _json(value: Any, safe: bool) -> Any:
    match value:
        case bool() | None | str():
            return value
        case int():
            return str(value) if safe and abs(value) > _SAFE else value
        case float():
            return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case datetime.datetime():
            return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
        case datetime.date():
            return value.isoformat()
        case bytes():
            return f"base64:{base64.b64encode(value).decode('ascii')}"
        case list():
            return [_json(each, safe) for each in value]
    return value
