"""The graph of a command: its address, and opening it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from omnigraph_sql.cli import output
from omnigraph_sql.cli.arrow_import import import_arrow
from omnigraph_sql.cli.projects import graph_address, use_checks
from omnigraph_sql.errors import writable

if TYPE_CHECKING:
    from omnigraph_sql.graph import Graph

_SERVER = re.compile(r"https?://", re.IGNORECASE)


def usage_error(message: str) -> click.UsageError:
    """A usage error that knows the command it is about."""
    return click.UsageError(message, click.get_current_context(silent=True))


def graph_uri(uri: str | None, store: str | None) -> str:
    """The graph of a command: the argument URI or `--store`, exactly one of them."""
    if uri is not None and store is not None:
        raise usage_error("the graph is named twice: by the argument URI and by --store")
    address = store if uri is None else uri
    if address is None:
        raise usage_error("Missing argument 'URI'.")
    if _SERVER.match(address):
        raise usage_error(
            f"`{address}` is the address of a server, and servers cannot be asked yet; "
            "the argument URI and --store name a directory, s3://BUCKET/PREFIX, or a graph of the project file"
        )
    return graph_address(address)


def graph_and_word(words: Sequence[str], store: str | None, name: str) -> tuple[str, str]:
    """The graph and the word after it; with `--store` there is only the word."""
    uri, word = graph_and_optional_word(words, store)
    if word is None:
        raise usage_error(f"Missing argument '{name}'.")
    return uri, word


def graph_and_optional_word(words: Sequence[str], store: str | None) -> tuple[str, str | None]:
    """As `graph_and_word`, but the word may be left out."""
    uris, rest = (words[:1], words[1:]) if store is None else ((), words)
    if len(rest) > 1:
        extra = " ".join(rest[1:])
        named_twice = "" if store is None else "; the graph is named by --store already"
        raise usage_error(f"Got unexpected extra argument ({extra}){named_twice}")
    return graph_uri(uris[0] if uris else None, store), rest[0] if rest else None


def graph_and_two_words(words: Sequence[str], store: str | None, first: str, second: str) -> tuple[str, str, str]:
    """The graph and the two words after it; with `--store` there are only these."""
    uris, rest = (words[:1], words[1:]) if store is None else ((), words)
    if len(rest) > 2:
        raise usage_error(f"Got unexpected extra argument ({' '.join(rest[2:])})")
    uri = graph_uri(uris[0] if uris else None, store)
    if len(rest) < 2:
        raise usage_error(f"Missing argument '{second if rest else first}'.")
    return uri, rest[0], rest[1]


def announce(uri: str, branch: str | None = None, *, quiet: bool) -> None:
    """Print the target of a write on standard error."""
    if not quiet:
        place = uri if branch is None else f"{uri}, branch {branch}"
        output.write_styled([[("help", "target"), ("source", f": {writable(place)}")]], sys.stderr)


@contextmanager
def writing(
    uri: str, *, branch: str | None = None, actor: str | None, quiet: bool, embed: str | None = None
) -> Iterator[Graph]:
    """Open a graph for writing."""
    import_arrow()
    from omnigraph_sql.graph import connect

    with connect(uri, actor=actor, embed=embed) as graph:
        announce(graph.uri, branch, quiet=quiet)
        use_checks(graph)
        yield graph


@contextmanager
def reading(uri: str, *, engine: str = "datafusion") -> Iterator[Graph]:
    """Open a graph for reading. Nothing is written, not even recovery."""
    if engine != "spark":  # PySpark hands pyarrow data frames
        import_arrow()
    from omnigraph_sql.graph import connect

    with connect(uri, read_only=True) as graph:
        yield graph
