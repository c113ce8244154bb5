"""`ogsql tag`: create, list and delete tags."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import graph_target, json_option, require_command, write_options, yes_option


@click.group("tag", invoke_without_command=True)
@click.pass_context
def tag(context: click.Context) -> None:
    """Create, list and delete tags."""
    require_command(context)


@dataclass(frozen=True, kw_only=True, slots=True)
class TagCreateOptions:
    """The command line of `ogsql tag create`."""

    words: tuple[str, ...]
    store: str | None
    base: str
    message: str | None
    actor: str | None
    quiet: bool
    as_json: bool


@tag.command("create")
@graph_target(then="NAME")
@click.option(
    "--from",
    "base",
    default="main",
    show_default=True,
    metavar="REF",
    help="The state that gets the name: a branch, BRANCH@VERSION, a tag or a commit.",
)
@click.option("--message", metavar="TEXT", help="A note about the tag.")
@write_options
@json_option()
@takes(TagCreateOptions)
def tag_create(options: TagCreateOptions) -> int:
    """Give a state of the graph URI the name NAME, for good."""
    from omnigraph_sql.cli.actions import tag as tags

    return tags.create(options)


@tag.command("list")
@graph_target()
@json_option()
def tag_list(uri: str | None, store: str | None, as_json: bool) -> int:
    """List the tags of the graph URI."""
    from omnigraph_sql.cli.actions import tag as tags

    return tags.show(uri, store, as_json=as_json)


@dataclass(frozen=True, kw_only=True, slots=True)
class TagDeleteOptions:
    """The command line of `ogsql tag delete`."""

    words: tuple[str, ...]
    store: str | None
    yes: bool
    actor: str | None
    quiet: bool
    as_json: bool


@tag.command("delete")
@graph_target(then="NAME")
@yes_option
@write_options
@json_option()
@takes(TagDeleteOptions)
def tag_delete(options: TagDeleteOptions) -> int:
    """Delete the tag NAME of the graph URI. A cleanup may then remove the state that it named."""
    from omnigraph_sql.cli.actions import tag as tags

    return tags.delete(options)
