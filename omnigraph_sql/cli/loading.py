"""`ogsql load` and `ogsql ingest`: data into a graph."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from omnigraph_sql.cli import output, progress
from omnigraph_sql.cli.addressing import graph_uri, usage_error, writing
from omnigraph_sql.cli.confirming import confirm
from omnigraph_sql.cli.sources import opened, require_file
from omnigraph_sql.cli.streams import standard_input, unpacked
from omnigraph_sql.cli.tabulating import Column, count, write_table
from omnigraph_sql.graph import Graph
from omnigraph_sql.writes.load import LoadResult

_TABLE = re.compile(r"(?P<type>(?:(?:node|edge):)?[^\W\d]\w*)=(?P<path>.+)", re.DOTALL)
_TABLE_SUFFIXES = (".parquet", ".csv", ".arrow")
_STANDARD_INPUT = "-"
_COLUMNS = (Column("type"), Column("kind"), Column("rows", right=True))


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be loaded, and how."""

    data: tuple[str, ...]
    mode: str
    branch: str
    base: str | None
    message: str | None
    idempotency_key: str | None
    rejects: str | None = None
    max_rejects: int | None = None
    embed: str | None = None


def run(
    uri: str | None, store: str | None, order: Order, *, yes: bool, actor: str | None, quiet: bool, as_json: bool
) -> int:
    """Load everything or nothing."""
    target = graph_uri(uri, store)
    tables = _tables(order.data)
    for path in order.data if tables is None else tables.values():
        if path != _STANDARD_INPUT:
            require_file(str(path))
    if order.mode == "overwrite":
        confirm(target, f"replace rows on the branch {order.branch}", yes=yes, as_json=as_json)
    watched = progress.is_wanted(quiet=quiet, as_json=as_json)
    with writing(target, branch=order.branch, actor=actor, quiet=quiet, embed=order.embed) as graph:
        source = _records(order.data[0], watched=watched) if tables is None else _unread(tables, watched=watched)
        with source as data:
            result = _load(graph, data, order)
        if as_json:
            output.write_json({"uri": graph.uri, **result.to_dict()})
        else:
            _report(result)
    return 0


def _load(graph: Graph, data: Any, order: Order) -> LoadResult:
    return graph.load(
        data,
        mode=order.mode,
        branch=order.branch,
        base=order.base,
        message=order.message,
        idempotency_key=order.idempotency_key,
        rejects=order.rejects,
        max_rejects=order.max_rejects,
    )


def _tables(data: Sequence[str]) -> dict[str, Path] | None:
    """Tables by the type of their rows; None for one source of records."""
    found = [_TABLE.fullmatch(each) for each in data]
    if not any(found):
        if len(data) > 1:
            raise usage_error("--data takes one file of records; to load more, join them: cat FILES | … --data -")
        if PurePath(data[0]).suffix in _TABLE_SUFFIXES:
            raise usage_error(f"`{data[0]}` is a table: name the type of its rows, as in --data TYPE={data[0]}")
        return None
    tables: dict[str, Path] = {}
    for each, match in zip(data, found, strict=True):
        if match is None:
            raise usage_error(f"--data {each} names no type; records and tables cannot be loaded together")
        if match["type"] in tables:
            raise usage_error(f"--data names the type {match['type']} twice")
        tables[match["type"]] = Path(match["path"])
    return tables


@contextmanager
def _unread(tables: dict[str, Path], *, watched: bool) -> Iterator[dict[str, Path]]:
    with progress.shown(count(len(tables), "table"), None) if watched else nullcontext():
        yield tables


@contextmanager
def _records(path: str, *, watched: bool) -> Iterator[Any]:
    """The bytes of a file or of standard input, unpacked if they are gzipped."""
    if path == _STANDARD_INPUT:
        yield unpacked(standard_input())
        return
    with opened(path) as file:
        found = os.fstat(file.fileno())
        stream = unpacked(file)
        if not watched or not stat.S_ISREG(found.st_mode):
            yield stream
            return
        with progress.shown(PurePath(path).name, found.st_size) as report:
            yield progress.Watched(stream, file, report)


def _report(result: LoadResult) -> None:
    rows = [(name, "node", str(number)) for name, number in result.nodes.items()]
    rows += [(name, "edge", str(number)) for name, number in result.edges.items()]
    if rows:
        write_table(_COLUMNS, rows)
        output.write("\n")
    if result.branch_created:
        output.write(f"created the branch {result.branch} from {result.base_branch}\n")
    nodes, edges = (count(sum(kind.values()), noun) for kind, noun in ((result.nodes, "node"), (result.edges, "edge")))
    output.write(f"loaded {nodes} and {edges} into {result.branch} ({result.mode})\n")
    if result.rejected:
        output.write(f"left out {count(result.rejected, 'record')} that break a rule\n")
    output.write(f"commit {result.commit.graph_commit_id}\n" if result.commit else "nothing to commit\n")
