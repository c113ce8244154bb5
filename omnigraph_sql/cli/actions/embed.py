"""`ogsql embed`: vectors for the records of a file."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import IO, Any

import click

from omnigraph_compiler import Catalog
from omnigraph_sql.cli import output
from omnigraph_sql.cli.atomic_write import replacement
from omnigraph_sql.cli.byte_streams import packed, standard_input, unpacked
from omnigraph_sql.cli.projects import schema_path
from omnigraph_sql.cli.source_files import load_catalog, opened
from omnigraph_sql.cli.tables import count
from omnigraph_sql.embeddings.client import Embedder
from omnigraph_sql.embeddings.handle import Embeddings
from omnigraph_sql.embeddings.records import Mode, RecordRewriter, read_lines
from omnigraph_sql.embeddings.selection import Select, choose

_STANDARD_INPUT = "-"
_SELECT = re.compile(r"(?P<type>[^:=]+):(?P<property>[^:=]+)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class EmbedArguments:
    """The records to select, and the mode of the embedding."""

    types: tuple[str, ...]
    selects: tuple[str, ...]
    reembed_all: bool
    clean: bool

    def mode(self) -> Mode:
        """The mode: fill_missing by default."""
        if self.reembed_all and self.clean:
            raise _usage_error("--reembed-all and --clean exclude each other")
        if self.clean:
            return "clean"
        return "reembed_all" if self.reembed_all else "fill_missing"


def run(
    path: str, arguments: EmbedArguments, *, schema: str | None, store: str | None, out: str | None, as_json: bool
) -> int:
    """Write the records to standard output, or to a file that is complete or not there at all."""
    mode = arguments.mode()
    selects = _selects(arguments.selects)
    choice = choose(_catalog(schema, store), arguments.types, selects)
    used = _Used()
    rewriter = RecordRewriter(choice, mode, used)
    with _source(path) as source:
        lines = rewriter.rewrite(read_lines(source, "standard input" if path == _STANDARD_INPUT else f"`{path}`"))
        if out is None:
            # Records are UTF-8 whatever the terminal speaks.
            sys.stdout.buffer.writelines(lines)
            sys.stdout.buffer.flush()
        else:
            with replacement(out) as file, packed(file, out) as stream:
                stream.writelines(lines)
    summary = {"mode": mode, **asdict(rewriter.tally), "provider": used.provider, "model": used.model, "output": out}
    if as_json and out is not None:
        output.write_json(summary)
    elif not as_json:
        # Beside the records, never among them.
        output.write(_sentence(summary), sys.stderr if out is None else None)
    return 0


class _Used:
    """The embedder, made when the first vector is computed. Its warnings are printed."""

    def __init__(self) -> None:
        self._embeddings = Embeddings()
        self._embedder: Embedder | None = None

    def __call__(self) -> Embedder:
        if self._embedder is None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self._embedder = self._embeddings.client()
            lines = [[("warning", "warning"), ("bold", f": {warning.message}")] for warning in caught]
            output.write_styled(lines, sys.stderr)
        return self._embedder

    @property
    def provider(self) -> str | None:
        return self._embedder.provider if self._embedder else None

    @property
    def model(self) -> str | None:
        return self._embedder.model if self._embedder else None


def _catalog(schema: str | None, store: str | None) -> Catalog:
    if schema is not None and store is not None:
        raise _usage_error("name the schema with either --schema FILE or --store URI")
    if store is None:
        return load_catalog(schema_path(schema, "option '--schema' or '--store'"))
    from omnigraph_sql.cli.target import graph_uri, reading

    with reading(graph_uri(None, store)) as graph:
        return graph.catalog


def _selects(texts: Sequence[str]) -> list[Select]:
    selects = []
    for text in texts:
        match = _SELECT.fullmatch(text)
        if match is None:
            raise _usage_error(f"--select {text} is not of the form TYPE:PROPERTY=VALUE")
        selects.append(Select(match["type"], match["property"], match["value"]))
    return selects


@contextmanager
def _source(path: str) -> Iterator[IO[bytes]]:
    if path == _STANDARD_INPUT:
        yield unpacked(standard_input())
        return
    with opened(path) as file:
        yield unpacked(file)


def _sentence(summary: dict[str, Any]) -> str:
    records = f"of {count(summary['chosen'], 'chosen record')} ({summary['records']} in all)"
    if summary["mode"] == "clean":
        return f"removed {count(summary['removed'], 'vector')} {records}\n"
    missing = summary["without_text"]
    rest = f"; {count(missing, 'vector')} without a text to compute from" if missing else ""
    by = f" with {summary['provider']} ({summary['model']})" if summary["provider"] else ""
    return f"computed {count(summary['embedded'], 'vector')} {records}{by}{rest}\n"


def _usage_error(message: str) -> click.UsageError:
    return click.UsageError(message, click.get_current_context(silent=True))
