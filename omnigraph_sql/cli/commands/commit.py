"""`ogsql commit`: the history of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import branch_option, change_options, graph_target, json_option, require_command


@click.group("commit", invoke_without_command=True)
@click.pass_context
def commit(context: click.Context) -> None:
    """Look at the history of a graph."""
    require_command(context)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitListOptions:
    """The command line of `ogsql commit list`."""

    uri: str | None
    store: str | None
    branch: str
    actor: str | None
    limit: int | None
    after: str | None
    as_json: bool


@commit.command("list")
@graph_target()
@branch_option("The branch whose history is shown.")
@click.option("--actor", metavar="ACTOR", help="Only commits of this author.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show at most N commits.")
@click.option("--after", metavar="ID", help="Show the commits that come after this one, which are older: the next page.")
@json_option()
@takes(CommitListOptions)
def commit_list(options: CommitListOptions) -> int:
    """List the commits of the graph URI, newest first."""
    from omnigraph_sql.cli.actions import show

    return show.commits(options)


@commit.command("show")
@graph_target(then="ID")
@json_option()
def commit_show(words: tuple[str, ...], store: str | None, as_json: bool) -> int:
    """Show the commit ID of the graph URI."""
    from omnigraph_sql.cli.actions import show

    return show.commit(words, store, as_json=as_json)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitChangesOptions:
    """The command line of `ogsql commit changes`."""

    words: tuple[str, ...]
    store: str | None
    kinds: tuple[str, ...]
    types: tuple[str, ...]
    ops: tuple[str, ...]
    limit: int | None
    page_token: str | None
    as_json: bool


@commit.command("changes")
@graph_target(then="ID")
@change_options
@click.option("--limit", type=click.IntRange(1, 8192), metavar="N", help="Show so many changes at most.")
@click.option("--page-token", metavar="TOKEN", help="Go on after the page that showed this token.")
@json_option()
@takes(CommitChangesOptions)
def commit_changes(options: CommitChangesOptions) -> int:
    """Show what the commit ID of the graph URI changed, with the values before and after it."""
    from omnigraph_sql.cli.actions import changes

    return changes.of_commit(options)
