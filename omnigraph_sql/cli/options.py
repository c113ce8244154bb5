"""What the declarations of commands share: types and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

# Serves shell completion and checks nothing. What is wrong with a file is said by the code that reads it: a file that is
# missing or closed to us is not a usage error.
FILE = click.Path(readable=False)


def json_option(help_text: str = "Print one JSON document.") -> Callable[[F], F]:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


embed_option = click.option(
    "--embed", type=click.Choice(["auto", "off"]), help="Compute vectors that are left out; by default if a provider is set."
)


yes_option = click.option("--yes", is_flag=True, help="Do not ask, if the graph is not a local directory.")


def require_command(context: click.Context) -> None:
    """Without a subcommand a group shows what it offers, and fails: nothing was done."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(2)


def graph_target(*, then: str | None = None) -> Callable[[F], F]:
    """The graph a command works on: the argument URI or `--store`. `then` names what follows the URI.

    With `--store` the URI is left out, so what stands where is decided when the command runs.
    """

    def decorate(command: F) -> F:
        command = click.option("--store", type=FILE, metavar="URI", help="The graph, instead of the argument URI.")(command)
        if then is None:
            return click.argument("uri", type=FILE, required=False)(command)
        return click.argument("words", type=FILE, nargs=-1, metavar=f"[URI] {then}")(command)

    return decorate


def branch_option(help_text: str) -> Callable[[F], F]:
    """`--branch`, main by default."""
    return click.option("--branch", default="main", show_default=True, metavar="NAME", help=help_text)


def write_options(command: F) -> F:
    """What every write has: who does it, and whether it says where."""
    command = click.option("--quiet", "-q", is_flag=True, help="Do not show the target on standard error.")(command)
    return click.option("--as", "actor", metavar="ACTOR", help="Who is recorded as the author.")(command)
