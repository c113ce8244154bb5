"""`ogsql shell`: a session on a graph."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import TEXT_FORMATS, ReadCommandOptions, format_option, graph_target, read_options


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellOptions(ReadCommandOptions):
    """The command line of `ogsql shell`."""

    uri: str | None
    store: str | None
    format_: str
    read_only: bool
    actor: str | None
    keep_going: bool


@click.command("shell")
@graph_target()
@read_options("datafusion", "duckdb")
@format_option(*TEXT_FORMATS)
@click.option("--read-only", is_flag=True, help="Refuse mutations.")
@click.option("--as", "actor", metavar="ACTOR", help="Who is recorded as the author of mutations.")
@click.option("--keep-going", is_flag=True, help="Without a terminal: go on after an error.")
@takes(ShellOptions)
def shell(options: ShellOptions) -> int:
    """Ask the graph URI in .gq and SQL, at one prompt.

    Without a terminal the statements come from standard input, and the first error ends the command.
    """
    from omnigraph_sql.cli.actions import query
    from omnigraph_sql.cli.arrow_import import import_arrow

    import_arrow()
    from omnigraph_sql.cli.shell import start

    arguments = start.ShellArguments(read=query.read_arguments(options), form=options.format_)
    return start.run(
        options.uri,
        options.store,
        arguments,
        read_only=options.read_only,
        actor=options.actor,
        keep_going=options.keep_going,
    )
