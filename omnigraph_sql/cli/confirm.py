"""Confirmation prompt for destructive commands on remote graphs."""

from __future__ import annotations

import sys

import click

from omnigraph_sql.cli.arrow_import import import_arrow
from omnigraph_sql.cli.target import usage_error
from omnigraph_sql.errors import BadRequest


def confirm(uri: str, deed: str, *, yes: bool, as_json: bool) -> None:
    """Continue if the graph is local, `--yes` is set, or the user confirms at the terminal."""
    import_arrow()
    from omnigraph_sql.storage.roots import LocalRoot, resolve_root

    root = resolve_root(uri)
    if yes or isinstance(root, LocalRoot):
        return
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise usage_error(f"this would {deed} in {root}, which is not a local directory: confirm it with --yes")
    try:
        agreed = click.confirm(f"This will {deed} in {root}. Go on?", err=True)
    except click.Abort:
        agreed = False
    if not agreed:
        raise BadRequest("nothing was changed")
