"""Results of queries: a stream of Arrow batches; on demand also tables, rows, data frames and JSON."""

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

from omnigraph_sql.arguments import checked, flag
from omnigraph_sql.errors import BadRequest, Configuration

_SAFE = 2**53 - 1
_SHOWN_ROWS = 20
_SHOWN_CHARACTERS = 120


class ResultSource(Protocol):
    """The batches of one run of a query, in order. They can be read once."""

    @property
    def is_done(self) -> bool:
        """True if all rows have been computed, read or not."""

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch; None after the last."""

    def cancel(self) -> None:
        """Stop the run, from any thread."""

    def close(self) -> None:
        """Stop the run and release its resources."""


class Result:
    """The rows of a query and the commit they were read from.

    A small result is complete from the start. The rows of a large one come while they are read: iterating gives Arrow
    batches and does not store them; `to_arrow`, `to_pylist` and the like collect the rows and store them. A result can be
    read again: from the stored rows, or by running the query once more on its snapshot. Leaving a loop early stops the work.

    `len` counts the rows. A result is also an Arrow C stream, so other libraries read it directly.

    Example:
        >>> ports = graph.query("query ports() { match { $p: Port } return { $p.code, $p.depth } order { $p.code } }")
        >>> len(ports), [batch.num_rows for batch in ports]
        (2, [2])
    """

    def __init__(
        self,
        schema: pa.Schema,
        run: Callable[[], ResultSource],
        *,
        graph_commit_id: str,
        query_name: str = "",
        target: str = "main",
    ) -> None:
        self.schema = named = _distinct(schema)
        """Names and types of the columns, also of a result without rows."""
        self.graph_commit_id = graph_commit_id
        self.query_name = query_name
        self.target = target
        self._run = run if named is schema else lambda: _RenamedSource(run(), named)
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._running: weakref.WeakSet[Any] = weakref.WeakSet()
        self._table: pa.Table | None = None
        self._unread: ResultSource | None = self._run()
        if self._unread.is_done:
            self._table = self._collect()

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
        """Return the first rows as an HTML table for notebooks. A later read still gets all rows."""
        if self._is_cancelled:
            return f"<p>{html.escape(repr(self))}, cancelled</p>"
        table, is_all = self._first_rows(_SHOWN_ROWS + 1)
        shown = table.slice(0, _SHOWN_ROWS)
        if is_all:
            of = "" if shown.num_rows == table.num_rows else f"the first {shown.num_rows} of "
            count = f"{of}{table.num_rows:,} {'row' if table.num_rows == 1 else 'rows'}"
        else:
            count = f"the first {shown.num_rows} rows; more are read when they are asked for"
        return _html(shown, f"{count} on {self.target}")

    @property
    def columns(self) -> list[str]:
        """Column names, in the order of the query's `return`.

        Example:
            >>> ports = graph.query("query ports() { match { $p: Port } return { $p.code, $p.depth } order { $p.code } }")
            >>> ports.columns
            ['p.code', 'p.depth']
        """
        return list(self.schema.names)

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._table is not None:
            yield from self._table.to_batches()
            return
        source = self._start()
        try:
            while (batch := source.next()) is not None:
                yield batch
        finally:
            source.close()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, iter(self)).__arrow_c_stream__(requested_schema)

    def cancel(self) -> None:
        """Stop the query, from any thread. A read that waits for rows raises an error; collected rows stay.

        Example:
            >>> ports = graph.query("query ports() { match { $p: Port } return { $p.code, $p.depth } order { $p.code } }")
            >>> ports.cancel()
        """
        with self._lock:
            self._is_cancelled = self._table is None
            unread, self._unread = self._unread, None
            running = list(self._running)
        if unread is not None:
            unread.close()
        for source in running:
            source.cancel()

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table.

        Raises:
            BadRequest: the query was cancelled.
            ResourceLimit: it took longer or needed more memory than allowed.

        Example:
            >>> ports = graph.query("query ports() { match { $p: Port } return { $p.code, $p.depth } order { $p.code } }")
            >>> ports.to_arrow().num_rows
            2
        """
        if self._table is None:
            self._table = self._collect()
        return self._table

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries of Python values.

        Raises:
            BadRequest: the query was cancelled.
            ResourceLimit: it took longer or needed more memory than allowed.

        Example:
            >>> ports = graph.query("query ports() { match { $p: Port } return { $p.code, $p.depth } order { $p.code } }")
            >>> ports.to_pylist()[1]
            {'p.code': 'NLRTM', 'p.depth': 24.0}
        """
        return [row for batch in self.to_arrow().to_batches() for row in rows(batch)]

    def to_pandas(self) -> Any:
        """Return the rows as a pandas data frame.

        Raises:
            Configuration: pandas is not installed.

        Example:
            >>> ports = graph.query("query ports() { match { $p: Port } return { $p.code, $p.depth } order { $p.code } }")
            >>> ports.to_pandas().shape
            (2, 2)
        """
        _require("pandas")  # the error of pyarrow names no remedy
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the rows as a polars data frame.

        Raises:
            Configuration: polars is not installed.

        Example:
            >>> ports = graph.query("query ports() { match { $p: Port } return { $p.code, $p.depth } order { $p.code } }")
            >>> ports.to_polars().shape
            (2, 2)
        """
        return _require("polars").from_arrow(self.to_arrow())

    @checked(javascript_safe=flag)
    def to_json(self, *, javascript_safe: bool = False) -> list[dict[str, Any]]:
        """The rows as JSON values.

        Args:
            javascript_safe: write whole numbers that a double cannot hold as texts.

        Returns:
            One dict per row.

        Example:
            >>> ports = graph.query("query ports() { match { $p: Port } return { $p.code, $p.depth } order { $p.code } }")
            >>> ports.to_json()[0]
            {'p.code': 'DEDUI', 'p.depth': None}
        """
        batches = self.to_arrow().to_batches()
        return [row for batch in batches for row in json_rows(batch, javascript_safe=javascript_safe)]

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as JSON values, with the query, the target and the commit.

        Example:
            >>> ports = graph.query("query ports() { match { $p: Port } return { $p.code, $p.depth } order { $p.code } }")
            >>> ports.to_dict()["row_count"]
            2
        """
        return {
            "query_name": self.query_name,
            "target": self.target,
            "row_count": len(self),
            "columns": self.columns,
            "rows": self.to_json(),
            "graph_commit_id": self.graph_commit_id,
        }

    def _collect(self) -> pa.Table:
        source = self._start()
        batches: list[pa.RecordBatch] = []
        try:
            while (batch := source.next()) is not None:
                batches.append(batch)
        finally:
            source.close()
        return pa.Table.from_batches(batches, schema=self.schema)

    def _first_rows(self, count: int) -> tuple[pa.Table, bool]:
        """Return at least `count` rows, and True if they are all. A run that goes on gets its batches back."""
        if self._table is not None:
            return self._table, True
        source = self._start()
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
                self._unread = _ResumedSource(batches, source)
        return table, is_last

    def _start(self) -> ResultSource:
        """Return the unread run, or start a new one."""
        with self._lock:
            if self._is_cancelled:
                raise BadRequest("the query was cancelled", hint="run it again")
            source, self._unread = self._unread, None
        source = self._run() if source is None else source
        if self._is_cancelled:  # during the start
            source.close()
            raise BadRequest("the query was cancelled", hint="run it again")
        if not source.is_done:
            self._running.add(source)
        return source


class _RenamedSource:
    """A run whose columns get other names."""

    def __init__(self, source: ResultSource, schema: pa.Schema) -> None:
        self._source = source
        self._schema = schema
        self.cancel = source.cancel
        self.close = source.close

    @property
    def is_done(self) -> bool:
        """True if all rows have been computed, read or not."""
        return self._source.is_done

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch; None after the last."""
        batch = self._source.next()
        return None if batch is None else pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)


def _distinct(schema: pa.Schema) -> pa.Schema:
    """Return a schema with unique names: SQL allows duplicates, but a row is a dictionary by name."""
    names = set(schema.names)
    if len(names) == len(schema.names):
        return schema
    fields: list[pa.Field] = []
    for field in schema:
        name, number = field.name, 2
        while name in (earlier.name for earlier in fields):
            name = f"{field.name}_{number}" if f"{field.name}_{number}" not in names else name
            number += 1
        fields.append(field.with_name(name))
    return pa.schema(fields, metadata=schema.metadata)


class _ResumedSource:
    """A run that returns batches which were read ahead once more, then the others."""

    def __init__(self, batches: list[pa.RecordBatch], source: ResultSource) -> None:
        self._batches = batches
        self._source = source

    @property
    def is_done(self) -> bool:
        """True if all rows have been computed, read or not."""
        return self._source.is_done

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch; None after the last."""
        return self._batches.pop(0) if self._batches else self._source.next()

    def cancel(self) -> None:
        """Stop the run, from any thread."""
        self._source.cancel()

    def close(self) -> None:
        """Stop the run and release its resources."""
        self._batches.clear()
        self._source.close()


def _require(package: str) -> Any:
    """Import an optional package. Raises `Configuration` with a hint if it is missing."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise Configuration(f"{package} is not installed", what=package, hint=f"run pip install {package}") from error


def _html(table: pa.Table, caption: str) -> str:
    """Return a table as HTML, with all names and values escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.column_names)
    json_values = (row for batch in table.to_batches() for row in json_rows(batch))
    body = "".join(f"<tr>{''.join(map(_html_cell, row.values()))}</tr>" for row in json_values)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p><small>{html.escape(caption)}</small></p>"


def _html_cell(value: Any) -> str:
    if value is None:
        return '<td style="opacity: 0.5"><em>null</em></td>'
    align = "right" if isinstance(value, int | float) and not isinstance(value, bool) else "left"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
    return f'<td style="text-align: {align}">{html.escape(cut)}</td>'


def rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as dictionaries of Python values."""
    names = batch.schema.names
    values = [_in_microseconds(column).to_pylist() for column in batch.columns]
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _in_microseconds(column: pa.Array) -> pa.Array:
    """Cast nanoseconds to microseconds: the types of Python have no finer unit."""
    kind = column.type
    if getattr(kind, "unit", None) != "ns":
        return column
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    return column.cast(pa.time64("us") if pa.types.is_time64(kind) else pa.duration("us"), safe=False)


def json_rows(batch: pa.RecordBatch, *, javascript_safe: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as JSON values."""
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
            return [_json(item, safe) for item in value]
        case dict():
            return {name: _json(item, safe) for name, item in value.items()}
    return str(value)
