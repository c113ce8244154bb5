"""`ogsql copy`: a copy of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import graph_target, json_option, message_option, write_options


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyOptions:
    """The command line of `ogsql copy`."""

    words: tuple[str, ...]
    store: str | None
    branch: str | None
    tag: str | None
    snapshot: str | None
    version: int | None
    whole: bool
    message: str | None
    actor: str | None
    quiet: bool
    as_json: bool


@click.command("copy")
@graph_target(then="TARGET")
@click.option("--branch", metavar="NAME", help="The branch to copy.  [default: that of the project file, or main]")
@click.option("--tag", metavar="NAME", help="Copy the graph as it was at a tag.")
@click.option("--snapshot", metavar="ID", help="Copy the graph as it was at a commit.")
@click.option(
    "--at-version", "version", type=click.IntRange(min=1), metavar="N", help="Copy an earlier version of the branch."
)
@click.option("--all", "whole", is_flag=True, help="Copy all branches, with their history.")
@message_option
@write_options
@json_option()
@takes(CopyOptions)
def copy(options: CopyOptions) -> int:
    """Copy the graph URI to TARGET, a directory or s3://BUCKET/PREFIX that is empty.

    The copy is a new graph with one commit, whose main branch shows one state of the original. With --all it is the same
    graph at another place. Either way it needs nothing of the original, and both can be written to. Repeat a copy that was
    interrupted to complete it.
    """
    from omnigraph_sql.cli.actions import copy as copying

    return copying.run(options)
