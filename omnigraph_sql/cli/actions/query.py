"""`ogsql query`, `ogsql sql` and `ogsql explain`: run reads, or explain them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph_sql.cli import output
from omnigraph_sql.cli.projects import use_for
from omnigraph_sql.cli.query_input import QuerySource, parameters
from omnigraph_sql.cli.result_writer import BINARY, write_rows
from omnigraph_sql.cli.source_files import load_text, located
from omnigraph_sql.cli.target import graph_and_optional_word, reading, usage_error
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.runtime.limits import parse_duration, parse_size

if TYPE_CHECKING:
    from omnigraph_sql.cli.options import ReadCommandOptions
    from omnigraph_sql.graph import Graph
    from omnigraph_sql.result import Result

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadArguments:
    """Parameters, state of the graph, limits and engine of a read."""

    params: dict[str, Any]
    branch: str
    snapshot: str | None
    version: int | None
    timeout: float | None
    memory: int | None
    engine: str

    def __post_init__(self) -> None:
        if self.snapshot is not None and self.version is not None:
            raise usage_error("--snapshot and --at-version exclude each other")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryArguments(ReadArguments):
    """A read with its source."""

    source: QuerySource
    ignore_unknown: bool = False
    """True if parameters that are not declared are ignored."""

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of `Graph.query`, `Graph.sql` and `Graph.explain`."""
        return {
            "params": self.params,
            "branch": self.branch,
            "snapshot": self.snapshot,
            "version": self.version,
            "timeout": self.timeout,
            "memory_limit": self.memory,
            "engine": self.engine,
            "ignore_unknown_params": self.ignore_unknown,
        }


def read_arguments(options: ReadCommandOptions) -> ReadArguments:
    """Parse the options of a read."""
    return ReadArguments(**_parsed(options))


def query_arguments(options: ReadCommandOptions, source: QuerySource, *, ignore_unknown: bool) -> QueryArguments:
    """Parse the options of a read with a source."""
    return QueryArguments(source=source, ignore_unknown=ignore_unknown, **_parsed(options))


def _parsed(options: ReadCommandOptions) -> dict[str, Any]:
    return {
        "params": parameters(options.params, options.params_file),
        "branch": options.branch,
        "snapshot": options.snapshot,
        "version": options.version,
        "timeout": _read("--timeout", options.timeout, parse_duration),
        "memory": _read("--memory", options.memory, parse_size),
        "engine": options.engine,
    }


def run(words: Sequence[str], store: str | None, arguments: QueryArguments, *, form: str) -> int:
    """Run the query and write its rows."""
    uri, name = graph_and_optional_word(words, store)
    _check(form)
    with (
        reading(uri, engine=arguments.engine) as graph,
        located(arguments.source.path),
        start_query(graph, arguments, name) as result,
    ):
        write_rows(result, form)
    return 0


def run_sql(uri: str, arguments: QueryArguments, *, form: str, isolated: bool = False) -> int:
    """Run the SQL statement and write its rows."""
    _check(form)
    with reading(uri) as graph:
        use_for(graph, arguments.source.text)
        with start_sql(graph, arguments, isolated=isolated) as result:
            write_rows(result, form)
    return 0


def start_query(graph: Graph, arguments: QueryArguments, name: str | None = None) -> Result:
    """The rows of a read query."""
    return graph.query(arguments.source.text, name, **arguments.keywords())


def start_sql(graph: Graph, arguments: QueryArguments, *, isolated: bool = False) -> Result:
    """The rows of an SQL statement."""
    return graph.sql(arguments.source.text, **arguments.keywords(), isolated=isolated)


def _check(form: str) -> None:
    """Check the arguments before the graph is opened."""
    if form in BINARY and sys.stdout.isatty():
        raise usage_error(f"--format {form} is not for a terminal: write it to a file")


def explain(
    words: Sequence[str], store: str | None, arguments: QueryArguments, *, analyze: bool, verbose: bool, as_json: bool
) -> int:
    """Show how the query runs."""
    uri, name = graph_and_optional_word(words, store)
    with reading(uri, engine=arguments.engine) as graph, located(arguments.source.path):
        explanation = graph.explain(arguments.source.text, name, analyze=analyze, **arguments.keywords())
    if as_json:
        output.write_json(explanation.to_dict())
    else:
        output.write(f"{explanation.render_all() if verbose else explanation.render()}\n")
    return 0


def statement(words: Sequence[str], store: str | None, text: str | None, path: str | None) -> tuple[str, QuerySource]:
    """The graph, and the SQL from the argument, from -e or from a file."""
    uri, word = graph_and_optional_word(words, store)
    if sum(source is not None for source in (word, text, path)) != 1:
        raise usage_error("give one statement: as an argument, with -e SQL, or with --file FILE")
    if path is not None:
        return uri, QuerySource(load_text(path), path)
    return uri, QuerySource(word or text or "", "<-e>")


def _read(option: str, text: str | None, parse: Callable[[str], T]) -> T | None:
    try:
        return None if text is None else parse(text)
    except BadRequest as error:
        raise usage_error(f"{option}: {error.message}; {error.hint}") from None
