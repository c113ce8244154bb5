"""`ogsql branch`: create, list, merge and delete branches."""

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
    require_command,
    resolve_option,
    write_options,
    yes_option,
)

_BASE = "The state to start from: a branch, BRANCH@VERSION, a tag or a commit."


@click.group("branch", invoke_without_command=True)
@click.pass_context
def branch(context: click.Context) -> None:
    """Create, list, merge and delete branches."""
    require_command(context)


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchCreateOptions:
    """The command line of `ogsql branch create`."""

    words: tuple[str, ...]
    store: str | None
    base: str
    actor: str | None
    quiet: bool
    as_json: bool


@branch.command("create")
@graph_target(then="NAME")
@click.option("--from", "base", default="main", show_default=True, metavar="REF", help=_BASE)
@write_options
@json_option()
@takes(BranchCreateOptions)
def branch_create(options: BranchCreateOptions) -> int:
    """Create the branch NAME in the graph URI."""
    from omnigraph_sql.cli.actions import branch as branching

    return branching.create(options)


@branch.command("list")
@graph_target()
@json_option()
def branch_list(uri: str | None, store: str | None, as_json: bool) -> int:
    """List the branches of the graph URI, each with its newest commit.

    `ahead` and `behind` count the commits that main does not have, and that only main has.
    """
    from omnigraph_sql.cli.actions import branch as branching

    return branching.show(uri, store, as_json=as_json)


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchMergeOptions:
    """The command line of `ogsql branch merge`."""

    words: tuple[str, ...]
    store: str | None
    into: str
    delete_branch: bool
    dry_run: bool
    by_column: bool
    resolve: str | None
    message: str | None
    yes: bool
    actor: str | None
    quiet: bool
    as_json: bool


@branch.command("merge")
@graph_target(then="SOURCE")
@branch_option("The branch to merge into.", writes=True, option="--into", parameter="into")
@click.option("--delete-branch", is_flag=True, help="Delete SOURCE afterwards.")
@dry_run_option
@columns_option
@resolve_option
@message_option
@yes_option
@write_options
@json_option()
@takes(BranchMergeOptions)
def branch_merge(options: BranchMergeOptions) -> int:
    """Merge the branch SOURCE of the graph URI into another one, as one commit.

    With conflicts nothing is changed, they are printed, and the exit status is 5; so it is with --dry-run.
    """
    from omnigraph_sql.cli.actions import merge as merging

    return merging.run(options)


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchDeleteOptions:
    """The command line of `ogsql branch delete`."""

    words: tuple[str, ...]
    store: str | None
    yes: bool
    actor: str | None
    quiet: bool
    as_json: bool


@branch.command("delete")
@graph_target(then="NAME")
@yes_option
@write_options
@json_option()
@takes(BranchDeleteOptions)
def branch_delete(options: BranchDeleteOptions) -> int:
    """Delete the branch NAME of the graph URI, with everything that is only on it."""
    from omnigraph_sql.cli.actions import branch as branching

    return branching.delete(options)
