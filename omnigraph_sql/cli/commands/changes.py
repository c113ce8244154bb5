"""`ogsql changes`: the change feed of a branch."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import FILE, branch_option, change_options, graph_target, json_option, require_command


@click.group("changes", invoke_without_command=True)
@click.pass_context
def changes(context: click.Context) -> None:
    """Follow the changes of a branch."""
    require_command(context)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangesPollOptions:
    """The command line of `ogsql changes poll`."""

    uri: str | None
    store: str | None
    branch: str
    start: str | None
    cursor: str | None
    cursor_file: str | None
    kinds: tuple[str, ...]
    types: tuple[str, ...]
    ops: tuple[str, ...]
    as_json: bool


@changes.command("poll")
@graph_target()
@branch_option("The branch to follow.")
@click.option("--start", metavar="now|beginning|after:ID", help="Where to begin without a cursor.  [default: now]")
@click.option("--cursor", metavar="CURSOR", help="Go on from this cursor.")
@click.option("--cursor-file", type=FILE, metavar="FILE", help="Go on from the cursor in a file, and keep it there.")
@change_options
@json_option("Print one JSON object for each commit, and a last one with the cursor.")
@takes(ChangesPollOptions)
def changes_poll(options: ChangesPollOptions) -> int:
    """Print the commits of a branch of the graph URI that came after a cursor, each with its changes."""
    from omnigraph_sql.cli.actions import changes as following

    return following.poll(options)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangesBaselineOptions:
    """The command line of `ogsql changes baseline`."""

    uri: str | None
    store: str | None
    branch: str
    out: str | None
    cursor_file: str | None
    kinds: tuple[str, ...]
    types: tuple[str, ...]
    ops: tuple[str, ...]
    as_json: bool


@changes.command("baseline")
@graph_target()
@branch_option("The branch to follow.")
@click.option("--out", type=FILE, metavar="FILE", help="Write to a file; gzipped if its name ends in .gz.")
@click.option("--cursor-file", type=FILE, metavar="FILE", help="Keep the cursor in a file, for changes poll.")
@change_options
@json_option("With --out print one JSON document; print errors as JSON too.")
@takes(ChangesBaselineOptions)
def changes_baseline(options: ChangesBaselineOptions) -> int:
    """Print a branch of the graph URI as records, and a last one with the cursor from which its changes go on."""
    from omnigraph_sql.cli.actions import changes as following

    return following.baseline(options)
