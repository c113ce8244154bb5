"""`ogsql mutate`: run a mutation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from omnigraph_compiler import decode_source
from omnigraph_compiler.query.parse import parse_queries
from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import graph_and_optional_word, usage_error, writing
from omnigraph_sql.cli.sources import load_text, located, read_bytes, rejections
from omnigraph_sql.cli.tabulating import count
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.writes.mutation import MutationResult


@dataclass(frozen=True, slots=True)
class Source:
    """A query text and what to call the place it came from."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run, and where."""

    source: Source
    params: dict[str, Any]
    branch: str
    if_commit: str | None
    embed: str | None = None


def run(words: Sequence[str], store: str | None, order: Order, *, actor: str | None, quiet: bool, as_json: bool) -> int:
    """Run the mutation and say what it changed."""
    uri, given = graph_and_optional_word(words, store)
    with rejections(order.source.path):
        names = [query.name.text for query in parse_queries(order.source.text).queries]
    with (
        writing(uri, branch=order.branch, actor=actor, quiet=quiet, embed=order.embed) as graph,
        located(order.source.path),
    ):
        result = graph.mutate(
            order.source.text, given, order.params, branch=order.branch, actor=actor, if_commit=order.if_commit
        )
        if as_json:
            about = {"uri": graph.uri, "branch": order.branch, "query_name": given or names[0]}
            output.write_json(document(result, actor, **about))
        else:
            write_summary(result)
    return 0


def document(result: MutationResult, actor: str | None, **about: str) -> dict[str, Any]:
    """What a mutation changed, for programs; `about` says what was run, and where."""
    return {
        **about,
        "affected_nodes": result.affected_nodes,
        "affected_edges": result.affected_edges,
        "actor_id": actor,
        "commit": result.commit.to_dict() if result.commit else None,
    }


def write_summary(result: MutationResult) -> None:
    """What a mutation changed, for people."""
    output.write(f"affected {count(result.affected_nodes, 'node')} and {count(result.affected_edges, 'edge')}\n")
    output.write(f"commit {result.commit.graph_commit_id}\n" if result.commit else "nothing to commit\n")


def source(path: str | None, text: str | None) -> Source:
    """The queries, from a file or from the command line."""
    if (path is None) == (text is None):
        raise usage_error("name the query with either --query FILE or -e GQ")
    return Source(load_text(path), path) if path is not None else Source(text or "", "<-e>")


def parameters(text: str | None, path: str | None) -> dict[str, Any]:
    """The parameters, from a file or from the command line."""
    if text is not None and path is not None:
        raise usage_error("--params and --params-file exclude each other")
    if path is not None:
        data = read_bytes(path)
        with rejections(path):
            return _object(decode_source(data), f"the file `{path}`")
    return {} if text is None else _object(text, "--params")


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{where} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadRequest(f"{where} must hold a JSON object of names and values", hint='for example {"depth": 12.5}')
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON value")
