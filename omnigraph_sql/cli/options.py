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


def read_options(*engines: str) -> Callable[[F], F]:
    """What every read has: parameters, the state of the graph, limits, and engines, the first of them by default."""
    decorators: list[Callable[[F], F]] = [
        click.option("--params", metavar="JSON", help="The parameters, one JSON object."),
        click.option("--params-file", type=FILE, metavar="FILE", help="A file with the parameters."),
        branch_option("The branch to read."),
        click.option("--snapshot", metavar="ID", help="Read the graph as it was at a commit."),
        click.option(
            "--at-version", "version", type=click.IntRange(min=1), metavar="N", help="Read an earlier version of the branch."
        ),
        click.option("--timeout", metavar="TIME", help="Give up after so much work: 500ms, 30s, 5m.  [default: never]"),
        click.option(
            "--memory", metavar="SIZE", help="Use no more memory for rows: 512MB, 2GB.  [default: half of the machine's]"
        ),
        click.option(
            "--engine",
            type=click.Choice(engines),
            default=engines[0],
            show_default=True,
            help="What runs it.",
        ),
    ]

    def decorated(command: F) -> F:
        for decorate in reversed(decorators):
            command = decorate(command)
        return command

    return decorated


config_option = click.option(
    "--config", type=FILE, metavar="FILE", help="The project file.  [default: the nearest omnigraph.yaml, if there is one]"
)


def format_option(*names: str) -> Callable[[F], F]:
    """`--format`, with these names; table by default."""
    help_text = "How the rows are written."
    return click.option("--format", "format_", type=click.Choice(names), default="table", show_default=True, help=help_text)


ALL_FORMATS = ("table", "json", "jsonl", "csv", "kv", "arrow", "parquet")
TEXT_FORMATS = ALL_FORMATS[:5]


quiet_option = click.option("--quiet", "-q", is_flag=True, help="Do not show the target on standard error.")


def write_options(command: F) -> F:
    """What every write has: who does it, and whether it says where."""
    command = quiet_option(command)
    return click.option("--as", "actor", metavar="ACTOR", help="Who is recorded as the author.")(command)
