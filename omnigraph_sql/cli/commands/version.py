"""`ogsql version`: the versions of the program and of its libraries."""

from __future__ import annotations

import click

from omnigraph_sql.cli.options import json_option


@click.command("version")
@json_option()
def version(as_json: bool) -> int:
    """Show the version.

    With --json also those of Python and of the libraries that graphs are read and written with.
    """
    from omnigraph_sql.cli.actions import version as about

    return about.version(as_json=as_json)
