"""`ogsql load` and `ogsql ingest`: load data into a graph."""

from __future__ import annotations

import os
import re
import stat
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from omnigraph_sql.choices import ExtraColumns, LoadMode
from omnigraph_sql.cli import output, progress
from omnigraph_sql.cli.arrow_import import import_arrow
from omnigraph_sql.cli.byte_streams import standard_input, unpacked
from omnigraph_sql.cli.confirm import confirm
from omnigraph_sql.cli.errors import warning_lines
from omnigraph_sql.cli.source_files import opened, require_file
from omnigraph_sql.cli.tables import TableColumn, count, write_table
from omnigraph_sql.cli.target import graph_uri, usage_error, writing
from omnigraph_sql.errors import OmnigraphWarning

if TYPE_CHECKING:
    from omnigraph_sql.graph import Graph
    from omnigraph_sql.writes.load.loads import LoadResult

_TABLE = re.compile(r"(?P<type>(?:(?:node|edge):)?[^\W\d]\w*)=(?P<path>.+)", re.DOTALL)
_TABLE_SUFFIXES = (".parquet", ".csv", ".arrow")
_STANDARD_INPUT = "-"
_COLUMNS = (TableColumn("type"), TableColumn("kind"), TableColumn("rows", right=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadArguments:
    """The data of a load and its options."""

    data: tuple[str, ...]
    mode: LoadMode
    branch: str
    base: str | None
    message: str | None
    idempotency_key: str | None
    rejects: str | None = None
    max_rejects: int | str | None = None
    embed: str | None = None
    csv: Mapping[str, Any] | None = None
    extra_columns: ExtraColumns = "refuse"


def run(
    uri: str | None, store: str | None, arguments: LoadArguments, *, yes: bool, actor: str | None, quiet: bool, as_json: bool
) -> int:
    """Load all data in one commit."""
    import_arrow()
    from omnigraph_sql.writes.load.rejects import check_target

    target = graph_uri(uri, store)
    tables = _tables(arguments.data)
    for path in arguments.data if tables is None else tables.values():
        if path != _STANDARD_INPUT:
            require_file(str(path))
    files = arguments.data if tables is None else tuple(tables.values())
    check_target(arguments.rejects, inputs=[path for path in files if path != _STANDARD_INPUT])
    if arguments.mode == "overwrite":
        confirm(target, f"replace rows on the branch {arguments.branch}", yes=yes, as_json=as_json)
    watched = progress.is_wanted(quiet=quiet, as_json=as_json)
    with writing(target, branch=arguments.branch, actor=actor, quiet=quiet, embed=arguments.embed) as graph:
        source = _records(arguments.data[0], watched=watched) if tables is None else _unread(tables, watched=watched)
        with source as data, warnings.catch_warnings():
            warnings.simplefilter("ignore", OmnigraphWarning)  # the result has them, too
            result = _load(graph, data, arguments)
        for text in result.warnings:
            output.write_styled(warning_lines(text), sys.stderr)
        if as_json:
            output.write_json({"uri": graph.uri, **result.to_dict()})
        else:
            _report(result)
    return 0


def csv_options(
    delimiter: str | None,
    quote: str | None,
    encoding: str | None,
    null: tuple[str, ...],
    names: str | None,
    header: bool | None,
) -> dict[str, Any]:
    """The CSV options that the command line sets."""
    options = {
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        "quote": quote,
        "encoding": encoding,
        "null": list(null) or None,
        "names": None if names is None else names.split(","),
        "header": header,
    }
    return {name: value for name, value in options.items() if value is not None}


def _load(graph: Graph, data: Any, arguments: LoadArguments) -> LoadResult:
    return graph.load(
        data,
        mode=arguments.mode,
        branch=arguments.branch,
        base=arguments.base,
        message=arguments.message,
        idempotency_key=arguments.idempotency_key,
        rejects=arguments.rejects,
        max_rejects=arguments.max_rejects,
        csv=arguments.csv,
        extra_columns=arguments.extra_columns,
    )


def _tables(data: Sequence[str]) -> dict[str, Path] | None:
    """Tables by the type of their rows; None for one source of records."""
    matches = [_TABLE.fullmatch(word) for word in data]
    if not any(matches):
        if len(data) > 1:
            raise usage_error("--data takes one file of records; to load more, join them: cat FILES | … --data -")
        if PurePath(data[0]).suffix in _TABLE_SUFFIXES:
            raise usage_error(f"`{data[0]}` is a table: name the type of its rows, as in --data TYPE={data[0]}")
        return None
    tables: dict[str, Path] = {}
    for word, match in zip(data, matches, strict=True):
        if match is None:
            raise usage_error(f"--data {word} names no type; records and tables cannot be loaded together")
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
        status = os.fstat(file.fileno())
        stream = unpacked(file)
        if not watched or not stat.S_ISREG(status.st_mode):
            yield stream
            return
        with progress.shown(PurePath(path).name, status.st_size) as report:
            yield progress.ProgressInput(stream, file, report)


def _report(result: LoadResult) -> None:
    if result.replayed:
        output.write("a load with this key was published before: nothing to do\n")
        output.write(f"commit {result.commit.graph_commit_id}\n" if result.commit else "")
        return
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
        where = "" if result.rejects is None else f"; see {result.rejects}"
        rule = "that breaks a rule" if result.rejected == 1 else "that break a rule"
        output.write(f"left out {count(result.rejected, 'record')} {rule}{where}\n")
    output.write(f"commit {result.commit.graph_commit_id}\n" if result.commit else "nothing to commit\n")
