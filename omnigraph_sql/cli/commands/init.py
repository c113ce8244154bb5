"""`ogsql init`: a new graph."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import FILE, graph_target, json_option, write_options


@dataclass(frozen=True, kw_only=True, slots=True)
class InitOptions:
    """The command line of `ogsql init`."""

    uri: str | None
    store: str | None
    schema: str | None
    bundle: str | None
    force: bool
    actor: str | None
    quiet: bool
    as_json: bool


@click.command("init")
@graph_target()
@click.option(
    "--schema", type=FILE, metavar="FILE", help="The schema of the graph, a .pg file.  [default: that of the project file]"
)
@click.option(
    "--from",
    "bundle",
    type=FILE,
    metavar="BUNDLE",
    help="Make the graph of what `ogsql export --with-schema` wrote: its schema and its records; `-` is standard input.",
)
@click.option("--force", is_flag=True, help="Start again where an earlier init was interrupted.")
@write_options
@json_option()
@takes(InitOptions)
def init(options: InitOptions) -> int:
    """Create a graph in the directory URI, empty or from a bundle."""
    from omnigraph_sql.cli.actions import init as creating

    return creating.run(options)
