"""Results of read queries: a stream of Arrow batches first; tables, rows, data frames and JSON on demand."""

from __future__ import annotations

import base64
import datetime
import decimal
import html
import importlib
import json
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa

from omnigraph_sql.errors import BadRequest, Configuration

_SAFE = 2**53 - 1
_SHOWN_ROWS = 20
_SHOWN_CHARACTERS = 120


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
        self.schema = named = _distinct(schema)
        """Names and types of the columns, also where there are no rows."""
        self.graph_commit_id = graph_commit_id
        self.query_name = query_name
        self.target = target
        self._run = run if named is schema else lambda: _Renamed(run(), named)
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._taken: weakref.WeakSet[Any] = weakref.WeakSet()
        self._table: pa.Table | None = None
        self._fresh: Source | None = self._run()
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

    def _repr_html_(self) -> str:
        """The first rows as a table, as notebooks show it. Whoever reads the result next still gets all of them."""
        if self._is_cancelled:
            return f"<p>{html.escape(repr(self))}, cancelled</p>"
        table, is_all = self._first(_SHOWN_ROWS + 1)
        shown = table.slice(0, _SHOWN_ROWS)
        if is_all:
            of = "" if shown.num_rows == table.num_rows else f"the first {shown.num_rows} of "
            count = f"{of}{table.num_rows:,} {'row' if table.num_rows == 1 else 'rows'}"
        else:
            count = f"the first {shown.num_rows} rows; more are read when they are asked for"
        return _html(shown, f"{count} on {self.target}")

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
        _needed("pandas")  # what pyarrow says without it names no remedy
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The rows as a polars data frame."""
        return _needed("polars").from_arrow(self.to_arrow())

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
        source = self._take()
        batches: list[pa.RecordBatch] = []
        try:
            while (batch := source.next()) is not None:
                batches.append(batch)
        finally:
            source.close()
        return pa.Table.from_batches(batches, schema=self.schema)

    def _first(self, count: int) -> tuple[pa.Table, bool]:
        """So many rows from the beginning or a few more, and whether they are all. Of a run, they are put back."""
        if self._table is not None:
            return self._table, True
        source = self._take()
        batches: list[pa.RecordBatch] = []
        is_last = False
        while not is_last and sum(batch.num_rows for batch in batches) < count:
            batch = source.next()
            is_last = batch is None
            batches += [] if batch is None else [batch]
        table = pa.Table.from_batches(batches, schema=self.schema)
        if is_last:
            self._table = table
        else:
            with self._lock:
                self._fresh = _Begun(batches, source)
        return table, is_last

    def _take(self) -> Source:
        with self._lock:
            if self._is_cancelled:
                raise BadRequest("the query was cancelled", hint="run it again")
            source, self._fresh = self._fresh, None
        source = self._run() if source is None else source
        if self._is_cancelled:  # while it began
            source.close()
            raise BadRequest("the query was cancelled", hint="run it again")
        if not source.is_done:
            self._taken.add(source)
        return source


class _Renamed:
    """A run whose columns get other names."""

    def __init__(self, source: Source, schema: pa.Schema) -> None:
        self._source = source
        self._schema = schema
        self.cancel = source.cancel
        self.close = source.close

    @property
    def is_done(self) -> bool:
        """Whether all rows are there, read or not."""
        return self._source.is_done

    def next(self) -> pa.RecordBatch | None:
        """The next batch; None after the last."""
        batch = self._source.next()
        return None if batch is None else pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)


def _distinct(schema: pa.Schema) -> pa.Schema:
    """A schema in which no name stands twice: SQL allows it, and a row with names could not hold both values."""
    taken = set(schema.names)
    if len(taken) == len(schema.names):
        return schema
    fields: list[pa.Field] = []
    for field in schema:
        name, number = field.name, 2
        while name in (each.name for each in fields):
            name = f"{field.name}_{number}" if f"{field.name}_{number}" not in taken else name
            number += 1
        fields.append(field.with_name(name))
    return pa.schema(fields, metadata=schema.metadata)


class _Begun:
    """A run of which batches were taken and put back."""

    def __init__(self, batches: list[pa.RecordBatch], source: Source) -> None:
        self._batches = batches
        self._source = source

    @property
    def is_done(self) -> bool:
        """Whether all rows are there, read or not."""
        return self._source.is_done

    def next(self) -> pa.RecordBatch | None:
        """The next batch; None after the last."""
        return self._batches.pop(0) if self._batches else self._source.next()

    def cancel(self) -> None:
        """Stop the work, from any thread."""
        self._source.cancel()

    def close(self) -> None:
        """Stop the work and let go of everything."""
        self._batches.clear()
        self._source.close()


def _needed(package: str) -> Any:
    """A package that may be missing; whoever asked for it is told what to do."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise Configuration(f"{package} is not installed", what=package, hint=f"run pip install {package}") from error


def _html(table: pa.Table, caption: str) -> str:
    """A table as HTML; everything that comes from the data is escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.column_names)
    found = (row for batch in table.to_batches() for row in json_rows(batch))
    body = "".join(f"<tr>{''.join(map(_html_cell, row.values()))}</tr>" for row in found)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p><small>{html.escape(caption)}</small></p>"


def _html_cell(value: Any) -> str:
    if value is None:
        return '<td style="opacity: 0.5"><em>null</em></td>'
    align = "right" if isinstance(value, int | float) and not isinstance(value, bool) else "left"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
    return f'<td style="text-align: {align}">{html.escape(cut)}</td>'


def rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows of a batch as Python values."""
    names = batch.schema.names
    values = [_readable(column).to_pylist() for column in batch.columns]
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _readable(column: pa.Array) -> pa.Array:
    """A column whose values Python has: times of SQL count nanoseconds, which only pandas can hold."""
    kind = column.type
    if getattr(kind, "unit", None) != "ns":
        return column
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    return column.cast(pa.time64("us") if pa.types.is_time64(kind) else pa.duration("us"), safe=False)


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
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case bytes():
            return f"base64:{base64.b64encode(value).decode('ascii')}"
        case list() | tuple():
            return [_json(each, safe) for each in value]
        case dict():
            return {name: _json(each, safe) for name, each in value.items()}
    return str(value)
