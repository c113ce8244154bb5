"""`ogsql recovery`: what interrupted writes left behind."""

from __future__ import annotations

import click

from omnigraph_sql.cli.options import graph_target, json_option, require_command


@click.group("recovery", invoke_without_command=True)
@click.pass_context
def recovery(context: click.Context) -> None:
    """Look at what interrupted writes left behind."""
    require_command(context)


@recovery.command("list")
@graph_target()
@json_option()
def recovery_list(uri: str | None, store: str | None, as_json: bool) -> int:
    """List interrupted operations of the graph URI, and those that were recovered.

    Recovers nothing itself; the next write does.
    """
    from omnigraph_sql.cli.actions import show

    return show.recoveries(uri, store, as_json=as_json)
