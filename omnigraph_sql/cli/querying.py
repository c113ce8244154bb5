"""`ogsql query`: a read query, and its rows in one of several formats."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import graph_and_optional_word, reading, usage_error
from omnigraph_sql.cli.mutating import Source
from omnigraph_sql.cli.sources import located
from omnigraph_sql.cli.tabulating import Column, count, write_table
from omnigraph_sql.result import Result


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be read, and how it is shown."""

    source: Source
    params: dict[str, Any] | None
    branch: str
    snapshot: str | None
    version: int | None
    format: str


def run(words: Sequence[str], store: str | None, order: Order) -> int:
    """Run the query and write its rows."""
    uri, name = graph_and_optional_word(words, store)
    if order.snapshot is not None and order.version is not None:
        raise usage_error("--snapshot and --at-version exclude each other")
    if order.format in _BINARY and sys.stdout.isatty():
        raise usage_error(f"--format {order.format} is not for a terminal: write it to a file")
    with reading(uri) as graph, located(order.source.path):
        result = graph.query(
            order.source.text,
            name,
            order.params,
            branch=order.branch,
            snapshot=order.snapshot,
            version=order.version,
        )
        _FORMATS[order.format](result)
    return 0


def explain(words: Sequence[str], store: str | None, order: Order, *, analyze: bool) -> int:
    """Show how the query runs."""
    uri, name = graph_and_optional_word(words, store)
    with reading(uri) as graph, located(order.source.path):
        found = graph.explain(
            order.source.text,
            name,
            order.params,
            analyze=analyze,
            branch=order.branch,
            snapshot=order.snapshot,
            version=order.version,
        )
    if order.format == "json":
        output.write_json(found.to_dict())
    else:
        output.write(f"{found.render()}\n")
    return 0


def _table(result: Result) -> None:
    rows = [[_cell(value) for value in row.values()] for row in result.to_json()]
    numeric = [pa.types.is_integer(field.type) or pa.types.is_floating(field.type) for field in result.table.schema]
    columns = [Column(name, right=is_number) for name, is_number in zip(result.columns, numeric, strict=True)]
    write_table(columns, rows)
    output.write(f"\n{count(len(result), 'row')}\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json(result: Result) -> None:
    output.write_json(result.to_dict())


def _jsonl(result: Result) -> None:
    for row in result.to_json():
        output.write(json.dumps(row, ensure_ascii=False) + "\n")


def _csv(result: Result) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([_cell(value) for value in row.values()] for row in result.to_json())


def _arrow(result: Result) -> None:
    with pa.ipc.new_stream(sys.stdout.buffer, result.table.schema) as writer:
        writer.write_table(result.table)


def _parquet(result: Result) -> None:
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(result.table, sink)
    sys.stdout.buffer.write(sink.getvalue())


_FORMATS: dict[str, Callable[[Result], None]] = {
    "table": _table,
    "json": _json,
    "jsonl": _jsonl,
    "csv": _csv,
    "arrow": _arrow,
    "parquet": _parquet,
}
FORMATS = tuple(_FORMATS)
_BINARY = ("arrow", "parquet")
