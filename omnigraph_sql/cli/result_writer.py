"""Writers of query results to standard output. Most formats stream."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from omnigraph_sql.cli import output
from omnigraph_sql.cli.tables import LongTable, TableColumn, count, one_line, write_table
from omnigraph_sql.result import Result, json_rows

_CHUNK_ROWS = 4096
_PLANS = (("plan_type", "plan"), ("explain_key", "explain_value"))


def write_rows(result: Result, name: str) -> None:
    """Write all rows in the format of this name."""
    _FORMATS[name](result)


def _chunks(result: Result) -> Iterator[list[dict[str, Any]]]:
    """The rows as JSON values, in chunks."""
    for batch in result:
        for start in range(0, batch.num_rows, _CHUNK_ROWS):
            yield list(json_rows(batch.slice(start, _CHUNK_ROWS)))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(result: Result) -> None:
    if tuple(result.columns) in _PLANS:
        _plan(result)
        return
    columns = [TableColumn(field.name, right=_is_number(field.type)) for field in result.schema]
    pages = _pages(result)
    first, second = next(pages, []), next(pages, [])
    written = len(first) + len(second)
    if second:
        table = LongTable(columns)
        table.write(first)
        table.write(second)
        for page in pages:
            table.write(page)
            written += len(page)
    else:
        write_table(columns, first)
    output.write(f"\n{count(written, 'row')}\n")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _pages(result: Result) -> Iterator[list[list[str]]]:
    """The rows as texts, many at a time however small the batches are: columns are laid out anew for each page."""
    page: list[list[str]] = []
    for rows in _chunks(result):
        page += [[_cell(value) for value in row.values()] for row in rows]
        if len(page) >= _CHUNK_ROWS:
            yield page
            page = []
    if page:
        yield page


def _plan(result: Result) -> None:
    """Print the result of SQL's `explain`: texts of many lines, each below its title."""
    for rows in _chunks(result):
        for title, text in (row.values() for row in rows):
            output.write(f"{title}\n" + "".join(f"  {line}".rstrip() + "\n" for line in text.splitlines()))


def _json(result: Result) -> None:
    output.write_json(result.to_dict())


def _jsonl(result: Result) -> None:
    about = {"query_name": result.query_name, "target": result.target, "columns": result.columns}
    output.write(json.dumps(about | {"graph_commit_id": result.graph_commit_id}, ensure_ascii=False) + "\n")
    for rows in _chunks(result):
        output.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _csv(result: Result) -> None:
    def lines(rows: list[list[str]]) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue()

    output.write(lines([result.columns]))
    for rows in _chunks(result):
        output.write(lines([[_cell(value) for value in row.values()] for row in rows]))


def _kv(result: Result) -> None:
    """A line for each value and an empty line between rows: for rows that are too wide for a table."""
    width = max((len(name) for name in result.columns), default=0)
    gap = ""
    for rows in _chunks(result):
        texts = [
            "".join(f"{name:<{width}}  {one_line(_cell(value))}".rstrip() + "\n" for name, value in row.items())
            for row in rows
        ]
        output.write(gap + "\n".join(texts))
        gap = "\n"


def _arrow(result: Result) -> None:
    with pa.ipc.new_stream(sys.stdout.buffer, result.schema) as writer:
        for batch in result:
            writer.write_batch(batch)
            sys.stdout.buffer.flush()
    sys.stdout.buffer.flush()


def _parquet(result: Result) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(sys.stdout.buffer, result.schema) as writer:
        for batch in result:
            writer.write_batch(batch)
    sys.stdout.buffer.flush()


_FORMATS: dict[str, Callable[[Result], None]] = {
    "table": _table,
    "json": _json,
    "jsonl": _jsonl,
    "csv": _csv,
    "kv": _kv,
    "arrow": _arrow,
    "parquet": _parquet,
}
BINARY = ("arrow", "parquet")
