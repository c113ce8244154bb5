"""`ogsql query`, `ogsql sql` and `ogsql explain`: what is read, its rows, and how it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import graph_and_optional_word, reading, usage_error
from omnigraph_sql.cli.mutating import Source
from omnigraph_sql.cli.projects import project_of, use_for
from omnigraph_sql.cli.rows import BINARY, write_rows
from omnigraph_sql.cli.sources import load_text, located
from omnigraph_sql.engines.limits import parse_duration, parse_size
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.graph import Graph
from omnigraph_sql.result import Result

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be read."""

    source: Source
    params: dict[str, Any] | None
    branch: str
    snapshot: str | None
    version: int | None
    timeout: float | None = None
    memory: int | None = None
    engine: str = "datafusion"

    def arguments(self) -> dict[str, Any]:
        """What `Graph.query`, `Graph.sql` and `Graph.explain` take besides the text."""
        if self.snapshot is not None and self.version is not None:
            raise usage_error("--snapshot and --at-version exclude each other")
        return {
            "params": self.params,
            "branch": self.branch,
            "snapshot": self.snapshot,
            "version": self.version,
            "timeout": self.timeout,
            "memory_limit": self.memory,
            "engine": self.engine,
        }


def run(words: Sequence[str], store: str | None, order: Order, *, form: str) -> int:
    """Run the query and write its rows."""
    uri, name = graph_and_optional_word(words, store)
    _check(order, form)
    with reading(uri) as graph, located(order.source.path), start_query(graph, order, name) as result:
        write_rows(result, form)
    return 0


def run_sql(uri: str, order: Order, *, form: str, config: str | None) -> int:
    """Run the SQL statement and write its rows."""
    _check(order, form)
    project = project_of(config)
    with reading(uri) as graph:
        use_for(graph, project, order.source.text)
        with start_sql(graph, order) as result:
            write_rows(result, form)
    return 0


def start_query(graph: Graph, order: Order, name: str | None = None) -> Result:
    """The rows of a read query."""
    return graph.query(order.source.text, name, **order.arguments())


def start_sql(graph: Graph, order: Order) -> Result:
    """The rows of an SQL statement."""
    return graph.sql(order.source.text, **order.arguments())


def _check(order: Order, form: str) -> None:
    """Raise what is wrong with an order before a graph is opened for it."""
    order.arguments()
    if form in BINARY and sys.stdout.isatty():
        raise usage_error(f"--format {form} is not for a terminal: write it to a file")


def explain(words: Sequence[str], store: str | None, order: Order, *, analyze: bool, verbose: bool, as_json: bool) -> int:
    """Show how the query runs."""
    uri, name = graph_and_optional_word(words, store)
    arguments = order.arguments()
    with reading(uri) as graph, located(order.source.path):
        found = graph.explain(order.source.text, name, analyze=analyze, **arguments)
    if as_json:
        output.write_json(found.to_dict())
    else:
        output.write(f"{found.render_all() if verbose else found.render()}\n")
    return 0


def statement(words: Sequence[str], store: str | None, text: str | None, path: str | None) -> tuple[str, Source]:
    """The graph, and the SQL that is given as a word, with -e, or in a file."""
    uri, word = graph_and_optional_word(words, store)
    if sum(each is not None for each in (word, text, path)) != 1:
        raise usage_error("give one statement: as an argument, with -e SQL, or with --file FILE")
    if path is not None:
        return uri, Source(load_text(path), path)
    return uri, Source(word or text or "", "<-e>")


def seconds(text: str | None) -> float | None:
    """The value of --timeout."""
    return _read("--timeout", text, parse_duration)


def size(text: str | None) -> int | None:
    """The value of --memory."""
    return _read("--memory", text, parse_size)


def _read(option: str, text: str | None, parse: Callable[[str], T]) -> T | None:
    try:
        return None if text is None else parse(text)
    except BadRequest as error:
        raise usage_error(f"{option}: {error.message}; {error.hint}") from None
