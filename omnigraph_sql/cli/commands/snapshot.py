"""`ogsql snapshot`: the tables of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import graph_target, json_option


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotOptions:
    """The command line of `ogsql snapshot`."""

    uri: str | None
    store: str | None
    branch: str | None
    version: int | None
    commit: str | None
    as_json: bool


@click.command("snapshot")
@graph_target()
@click.option("--branch", metavar="NAME", help="The branch.  [default: main]")
@click.option("--at-version", "version", type=click.IntRange(min=1), metavar="N", help="The branch as it was at a version.")
@click.option("--commit", metavar="ID", help="The graph as it was at a commit or tag.")
@json_option()
@takes(SnapshotOptions)
def snapshot(options: SnapshotOptions) -> int:
    """Show the tables of the graph URI, their versions and row counts."""
    from omnigraph_sql.cli.actions import show

    return show.snapshot(options)
