"""`ogsql query` and `ogsql explain`: a read query, its rows, and how it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import graph_and_optional_word, reading, usage_error
from omnigraph_sql.cli.mutating import Source
from omnigraph_sql.cli.rows import BINARY, write_rows
from omnigraph_sql.cli.sources import located
from omnigraph_sql.engines.limits import parse_duration, parse_size
from omnigraph_sql.errors import BadRequest

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

    def arguments(self) -> dict[str, Any]:
        """What `Graph.query` and `Graph.explain` take besides the query."""
        if self.snapshot is not None and self.version is not None:
            raise usage_error("--snapshot and --at-version exclude each other")
        return {
            "params": self.params,
            "branch": self.branch,
            "snapshot": self.snapshot,
            "version": self.version,
            "timeout": self.timeout,
            "memory_limit": self.memory,
        }


def run(words: Sequence[str], store: str | None, order: Order, *, form: str) -> int:
    """Run the query and write its rows."""
    uri, name = graph_and_optional_word(words, store)
    arguments = order.arguments()
    if form in BINARY and sys.stdout.isatty():
        raise usage_error(f"--format {form} is not for a terminal: write it to a file")
    with (
        reading(uri) as graph,
        located(order.source.path),
        graph.query(order.source.text, name, **arguments) as result,
    ):
        write_rows(result, form)
    return 0


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
