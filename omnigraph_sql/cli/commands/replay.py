"""`ogsql revert`, `ogsql cherry-pick` and `ogsql restore`: commits and states, applied to a branch."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import (
    branch_option,
    columns_option,
    dry_run_option,
    graph_target,
    json_option,
    message_option,
    resolve_option,
    write_options,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayOptions:
    """The command line of `ogsql revert` and `ogsql cherry-pick`."""

    words: tuple[str, ...]
    store: str | None
    branch: str
    dry_run: bool
    by_column: bool
    resolve: str | None
    message: str | None
    actor: str | None
    quiet: bool
    as_json: bool


@click.command("revert")
@graph_target(then="COMMIT")
@branch_option("The branch that gets the inverse of the commit.", writes=True)
@dry_run_option
@columns_option
@resolve_option
@message_option
@write_options
@json_option()
@takes(ReplayOptions)
def revert(options: ReplayOptions) -> int:
    """Take the commit COMMIT of the graph URI back.

    The inverse of its changes becomes a commit of its own. Later changes stay; where they are in the way, there are
    conflicts, nothing is changed, they are printed, and the exit status is 5; so it is with --dry-run.
    """
    from omnigraph_sql.cli.actions import merge as merging

    return merging.replay("revert", options)


@click.command("cherry-pick")
@graph_target(then="COMMIT")
@branch_option("The branch that gets the changes of the commit.", writes=True)
@dry_run_option
@columns_option
@resolve_option
@message_option
@write_options
@json_option()
@takes(ReplayOptions)
def cherry_pick(options: ReplayOptions) -> int:
    """Apply the changes of the commit COMMIT to a branch of the graph URI.

    The commit may be on any branch. With conflicts nothing is changed, they are printed, and the exit status is 5; so it is
    with --dry-run.
    """
    from omnigraph_sql.cli.actions import merge as merging

    return merging.replay("cherry_pick", options)


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreOptions:
    """The command line of `ogsql restore`."""

    words: tuple[str, ...]
    store: str | None
    branch: str
    dry_run: bool
    message: str | None
    actor: str | None
    quiet: bool
    as_json: bool


@click.command("restore")
@graph_target(then="REF")
@branch_option("The branch that gets the rows.", writes=True)
@dry_run_option
@message_option
@write_options
@json_option()
@takes(RestoreOptions)
def restore(options: RestoreOptions) -> int:
    """Give a branch of the graph URI the rows of the earlier state REF.

    REF is the id of a commit, a tag, BRANCH or BRANCH@VERSION. It becomes a commit of its own; nothing of the history goes.
    """
    from omnigraph_sql.cli.actions import merge as merging

    return merging.restore(options)
