"""`ogsql diff`: what differs between two states of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import change_options, graph_target, json_option


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffOptions:
    """The command line of `ogsql diff`."""

    words: tuple[str, ...]
    store: str | None
    kinds: tuple[str, ...]
    types: tuple[str, ...]
    ops: tuple[str, ...]
    format_: str
    no_values: bool
    as_json: bool


@click.command("diff")
@graph_target(then="START END")
@change_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="How the changes are written.",
)
@click.option("--no-values", is_flag=True, help="Do not read the values of what changed.")
@json_option("As --format json.")
@takes(DiffOptions)
def diff(options: DiffOptions) -> int:
    """Show what was inserted, updated and deleted between two states of the graph URI.

    START and END are branches, BRANCH@VERSION, tags or the ids of commits.
    """
    from omnigraph_sql.cli.actions import diff as differences

    return differences.run(options)
