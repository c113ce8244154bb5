"""`ogsql cleanup`: remove old versions and what interrupted writers left."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import graph_target, json_option, quiet_option, yes_option


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanupOptions:
    """The command line of `ogsql cleanup`."""

    uri: str | None
    store: str | None
    keep: int | None
    older_than: str | None
    confirmed: bool
    yes: bool
    quiet: bool
    as_json: bool


@click.command("cleanup")
@graph_target()
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the newest N versions of each table.")
@click.option("--older-than", metavar="TIME", help="Keep the versions that are not older than this: 12h, 7d, 4w.")
@click.option("--confirm", "confirmed", is_flag=True, help="Remove the rest. Without it, show what would be removed.")
@yes_option
@quiet_option
@json_option()
@takes(CleanupOptions)
def cleanup(options: CleanupOptions) -> int:
    """Remove old versions of the tables of the graph URI, and what interrupted writers left.

    What a branch shows always stays. With --keep and --older-than, a version goes only if neither keeps it.
    """
    from omnigraph_sql.cli.actions import cleanup as cleaning

    arguments = cleaning.CleanupArguments(options.keep, cleaning.age(options.older_than), options.confirmed)
    return cleaning.run(options.uri, options.store, arguments, yes=options.yes, quiet=options.quiet, as_json=options.as_json)
