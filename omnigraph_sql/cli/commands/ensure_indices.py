"""`ogsql ensure-indices`: build the indexes that the schema declares."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import branch_option, graph_target, json_option, write_options


@dataclass(frozen=True, kw_only=True, slots=True)
class EnsureIndicesOptions:
    """The command line of `ogsql ensure-indices`."""

    uri: str | None
    store: str | None
    branch: str
    lance_text: bool
    actor: str | None
    quiet: bool
    as_json: bool


@click.command("ensure-indices")
@graph_target()
@branch_option("The branch whose tables are looked at.", writes=True)
@click.option("--lance-text", is_flag=True, help="Build Lance's own text indexes, too, for other readers of the tables.")
@write_options
@json_option()
@takes(EnsureIndicesOptions)
def ensure_indices(options: EnsureIndicesOptions) -> int:
    """Build the indexes that the schema of the graph URI declares and its tables lack.

    Answers are the same without them.
    """
    from omnigraph_sql.cli.actions import ensure_indices as indexing

    return indexing.run(options)
