"""Results of read queries: a stream of Arrow batches first; tables, rows, data frames and JSON on demand."""

from __future__ import annotations

import base64
import datetime
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa

from omnigraph_sql.errors import BadRequest

_SAFE = 2**53 - 1


class Source(Protocol):
    """Batches of a running query, in order, once."""

    @property
    def is_done(self) -> bool:
        """Whether all rows are there, read or not."""

    def next(self) -> pa.RecordBatch | None:
        """The next batch; None after the last."""

    def cancel(self) -> None:
        """Stop the work, from any thread."""

    def close(self) -> None:
        """Stop the work and let go of everything."""


class Result:
    """The rows of a query and the commit they were read from.

    A small result is complete from the start. The rows of a large one come while they are read: iterating gives Arrow
    batches and keeps none of them; `to_arrow`, `to_pylist` and the like collect the rows and keep them. A result can be read
    again: from what was collected, else by running the query once more on its snapshot. Leaving a loop early stops the work.
    """

    def __init__(
        self,
        schema: pa.Schema,
        run: Callable[[], Source],
        *,
        graph_commit_id: str,
        query_name: str = "",
        target: str = "main",
    ) -> None:
        self.schema = schema
        """Names and types of the columns, also where there are no rows."""
        self.graph_commit_id = graph_commit_id
        self.query_name = query_name
        self.target = target
        self._run = run
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._taken: weakref.WeakSet[Any] = weakref.WeakSet()
        self._table: pa.Table | None = None
        self._fresh: Source | None = run()
        if self._fresh.is_done:
            self._table = self._collected()

    def __repr__(self) -> str:
        rows = "" if self._table is None else f", {self._table.num_rows} rows"
        return f"<Result of `{self.query_name}` on {self.target}: {', '.join(self.columns)}{rows}>"

    def __enter__(self) -> Result:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()

    @property
    def columns(self) -> list[str]:
        """Column names, in the order of the query's `return`."""
        return list(self.schema.names)

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._table is not None:
            yield from self._table.to_batches()
            return
        source = self._take()
        try:
            while (batch := source.next()) is not None:
                yield batch
        finally:
            source.close()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, iter(self)).__arrow_c_stream__(requested_schema)

    def cancel(self) -> None:
        """Stop the query, from any thread. Whoever waits for its rows gets an error; rows that were collected stay."""
        with self._lock:
            self._is_cancelled = self._table is None
            fresh, self._fresh = self._fresh, None
            taken = list(self._taken)
        if fresh is not None:
            fresh.close()
        for source in taken:
            source.cancel()

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        if self._table is None:
            self._table = self._collected()
        return self._table

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as Python values."""
        return [row for batch in self.to_arrow().to_batches() for row in rows(batch)]

    def to_pandas(self) -> Any:
        """The rows as a pandas data frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The rows as a polars data frame."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def to_json(self, *, javascript_safe: bool = False) -> list[dict[str, Any]]:
        """The rows as JSON values; with `javascript_safe`, numbers that a double cannot hold become texts."""
        batches = self.to_arrow().to_batches()
        return [row for batch in batches for row in json_rows(batch, javascript_safe=javascript_safe)]

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

    def _collected(self) -> pa.Table:
        batches = [batch for batch in self]  # noqa: C416 (`list` would ask for the length, which collects)
        return pa.Table.from_batches(batches, schema=self.schema)

    def _take(self) -> Source:
        with self._lock:
            if self._is_cancelled:
                raise BadRequest("the query was cancelled", hint="run it again")
            source, self._fresh = self._fresh, None
        source = self._run() if source is None else source
        self._taken.add(source)
        return source


def rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows of a batch as Python values."""
    names = batch.schema.names
    values = [column.to_pylist() for column in batch.columns]
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def json_rows(batch: pa.RecordBatch, *, javascript_safe: bool = False) -> Iterator[dict[str, Any]]:
    """The rows of a batch as JSON values."""
    return ({name: _json(value, javascript_safe) for name, value in row.items()} for row in rows(batch))


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
