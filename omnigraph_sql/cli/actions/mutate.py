"""`ogsql mutate`: run a mutation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph_sql.cli import output
from omnigraph_sql.cli.query_input import QuerySource
from omnigraph_sql.cli.source_files import located, rejections
from omnigraph_sql.cli.tables import count
from omnigraph_sql.cli.target import graph_and_optional_word, writing

if TYPE_CHECKING:
    from omnigraph_sql.writes.mutation import MutationResult


@dataclass(frozen=True, slots=True, kw_only=True)
class MutateArguments:
    """A mutation, its parameters and its target."""

    source: QuerySource
    params: dict[str, Any]
    branch: str
    if_commit: str | None
    embed: str | None = None
    retries: int = 0
    message: str | None = None
    idempotency_key: str | None = None
    ignore_unknown: bool = False


def run(
    words: Sequence[str], store: str | None, arguments: MutateArguments, *, actor: str | None, quiet: bool, as_json: bool
) -> int:
    """Run the mutation and report its effects."""
    from omnigraph_compiler.query.parse import parse_queries

    uri, query_name = graph_and_optional_word(words, store)
    with rejections(arguments.source.path):
        names = [query.name.text for query in parse_queries(arguments.source.text).queries]
    with (
        writing(uri, branch=arguments.branch, actor=actor, quiet=quiet, embed=arguments.embed) as graph,
        located(arguments.source.path),
    ):
        result = graph.mutate(
            arguments.source.text,
            query_name,
            arguments.params,
            branch=arguments.branch,
            actor=actor,
            if_commit=arguments.if_commit,
            retries=arguments.retries,
            message=arguments.message,
            idempotency_key=arguments.idempotency_key,
            ignore_unknown_params=arguments.ignore_unknown,
        )
        if as_json:
            about = {"uri": graph.uri, "branch": arguments.branch, "query_name": query_name or names[0]}
            output.write_json(document(result, actor, **about))
        else:
            write_summary(result)
    return 0


def document(result: MutationResult, actor: str | None, **about: str) -> dict[str, Any]:
    """The effects of a mutation as JSON; `about` names the graph, the branch and the query."""
    return {
        **about,
        "affected_nodes": result.affected_nodes,
        "affected_edges": result.affected_edges,
        "replayed": result.replayed,
        "actor_id": actor,
        "commit": result.commit.to_dict() if result.commit else None,
    }


def write_summary(result: MutationResult) -> None:
    """Print the effects of a mutation."""
    if result.replayed:
        output.write("a mutation with this key was published before: nothing to do\n")
        output.write(f"commit {result.commit.graph_commit_id}\n" if result.commit else "")
        return
    output.write(f"affected {count(result.affected_nodes, 'node')} and {count(result.affected_edges, 'edge')}\n")
    output.write(f"commit {result.commit.graph_commit_id}\n" if result.commit else "nothing to commit\n")
