"""`ogsql mutate`: run a mutation."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import (
    FILE,
    branch_option,
    embed_option,
    graph_target,
    ignore_unknown_option,
    json_option,
    write_options,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MutateOptions:
    """The command line of `ogsql mutate`."""

    words: tuple[str, ...]
    store: str | None
    query: str | None
    text: str | None
    params: str | None
    params_file: str | None
    ignore_unknown: bool
    branch: str
    if_commit: str | None
    retries: int
    message: str | None
    idempotency_key: str | None
    embed: str | None
    actor: str | None
    quiet: bool
    as_json: bool


@click.command("mutate")
@graph_target(then="[NAME]")
@click.option("--query", type=FILE, metavar="FILE", help="The file with the mutation.")
@click.option("-e", "text", metavar="GQ", help="The mutation itself.")
@click.option("--params", metavar="JSON", help="The parameters, one JSON object.")
@click.option("--params-file", type=FILE, metavar="FILE", help="A file with the parameters.")
@ignore_unknown_option
@branch_option("The branch to change.", writes=True)
@click.option("--if-commit", metavar="ID", help="Only if this is the newest commit of the branch; exits with 4 if not.")
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Evaluate the mutation anew up to N times if others have changed the rows that it chose.",
)
@click.option("--message", metavar="TEXT", help="A note for the history.")
@click.option("--idempotency-key", metavar="KEY", help="Mutations with the same key are done once per branch.")
@embed_option
@write_options
@json_option()
@takes(MutateOptions)
def mutate(options: MutateOptions) -> int:
    """Run the mutation NAME on the graph URI.

    NAME can be left out if there is only one query.
    """
    from omnigraph_sql.cli import query_input
    from omnigraph_sql.cli.actions import mutate as mutating

    source = query_input.query_source(options.query, options.text)
    values = query_input.parameters(options.params, options.params_file)
    arguments = mutating.MutateArguments(
        source=source,
        params=values,
        branch=options.branch,
        if_commit=options.if_commit,
        embed=options.embed,
        retries=options.retries,
        message=options.message,
        idempotency_key=options.idempotency_key,
        ignore_unknown=options.ignore_unknown,
    )
    return mutating.run(
        options.words, options.store, arguments, actor=options.actor, quiet=options.quiet, as_json=options.as_json
    )
