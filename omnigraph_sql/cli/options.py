"""Types and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import click

_DIGITS = 19
F = TypeVar("F", bound=Callable[..., Any])

# Serves shell completion and checks nothing. What is wrong with a file is said by the code that reads it: a file that is
# missing or closed to us is not a usage error.
FILE = click.Path(readable=False)


def reject_limit(_: click.Context, __: click.Parameter, value: str | None) -> int | str | None:
    """The value of --max-rejects: a number, or a share as `0.5%`."""
    if value is None:
        return None
    from omnigraph_sql.cli.arrow_import import import_arrow
    from omnigraph_sql.errors import BadRequest

    import_arrow()
    from omnigraph_sql.writes.load.rejects import checked_limit

    text = value.strip()
    limit = int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else text
    try:
        checked_limit(limit)
    except BadRequest as error:
        raise click.BadParameter(f"{text!r} is neither a number nor a share: {error.hint}") from None
    return limit


def json_option(help_text: str = "Print one JSON document.") -> Callable[[F], F]:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


embed_option = click.option(
    "--embed", type=click.Choice(["auto", "off"]), help="Compute vectors that are left out; by default if a provider is set."
)


ignore_unknown_option = click.option(
    "--ignore-unknown-params", "ignore_unknown", is_flag=True, help="Ignore parameters that are not declared."
)


yes_option = click.option("--yes", is_flag=True, help="Do not ask, if the graph is not a local directory.")


def require_command(context: click.Context) -> None:
    """Show the help of a group and fail, if no subcommand is named."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(2)


CONFIG = "omnigraph_sql.config"
"""The key of `--config` in the context of a command; `cli.projects` reads it."""


def _keep_config(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta[CONFIG] = value


config_option = click.option(
    "--config",
    type=FILE,
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_keep_config,
    help="The project file.  [default: the nearest omnigraph.yaml, if there is one]",
)


def graph_target(*, then: str | None = None) -> Callable[[F], F]:
    """The graph a command works on: the argument URI or `--store`. `then` names what follows the URI.

    With `--store` the URI is left out, so what stands where is decided when the command runs.
    """

    def decorate(command: F) -> F:
        command = config_option(command)
        command = click.option("--store", type=FILE, metavar="URI", help="The graph, instead of the argument URI.")(command)
        if then is None:
            return click.argument("uri", type=FILE, required=False)(command)
        return click.argument("words", type=FILE, nargs=-1, metavar=f"[URI] {then}")(command)

    return decorate


def branch_option(
    help_text: str, *, writes: bool = False, option: str = "--branch", parameter: str = "branch"
) -> Callable[[F], F]:
    """`--branch`, or an option of another name for one, by default the one that the project file names, or main."""
    text = f"{help_text}  [default: that of the project file, or main]"
    return click.option(option, parameter, metavar="NAME", callback=partial(_branch_or_default, writes), help=text)


def _branch_or_default(writes: bool, context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    if value is not None or context.resilient_parsing:
        return value
    from omnigraph_sql.cli.projects import default_branch

    return default_branch(writes=writes)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadCommandOptions:
    """The values of the options that `read_options` declares."""

    params: str | None
    params_file: str | None
    branch: str
    snapshot: str | None
    version: int | None
    timeout: str | None
    memory: str | None
    engine: str


def read_options(*engines: str) -> Callable[[F], F]:
    """Options of every read: parameters, state of the graph, limits, and engine; the first engine is the default."""
    decorators: list[Callable[[F], F]] = [
        click.option("--params", metavar="JSON", help="The parameters, one JSON object."),
        click.option("--params-file", type=FILE, metavar="FILE", help="A file with the parameters."),
        branch_option("The branch to read."),
        click.option("--snapshot", metavar="ID", help="Read the graph as it was at a commit or tag."),
        click.option(
            "--at-version", "version", type=click.IntRange(min=1), metavar="N", help="Read an earlier version of the branch."
        ),
        click.option(
            "--timeout", metavar="TIME", help="Cancel after this much execution: 500ms, 30s, 5m.  [default: never]"
        ),
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


def format_option(*names: str) -> Callable[[F], F]:
    """`--format`, with these names; table by default."""
    help_text = "How the rows are written."
    return click.option("--format", "format_", type=click.Choice(names), default="table", show_default=True, help=help_text)


ALL_FORMATS = ("table", "json", "jsonl", "csv", "kv", "arrow", "parquet")
TEXT_FORMATS = ALL_FORMATS[:5]


message_option = click.option("--message", metavar="TEXT", help="A note for the history.")


resolve_option = click.option(
    "--resolve",
    type=FILE,
    metavar="FILE | ours | theirs",
    help="Decide conflicts: all for one side, or as a file of decisions says (YAML, JSON or JSON lines).",
)


dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would change, and the conflicts.")


columns_option = click.option(
    "--columns", "by_column", is_flag=True, help="Changes of different properties of a row are no conflict."
)


quiet_option = click.option("--quiet", "-q", is_flag=True, help="Do not show the target on standard error.")


def write_options(command: F) -> F:
    """Options of every write: its author, and --quiet."""
    command = quiet_option(command)
    return click.option("--as", "actor", metavar="ACTOR", help="Who is recorded as the author.")(command)


def change_options(command: F) -> F:
    """Which changes are shown: by kind, type and operation."""
    decorators = [
        click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only node or edge; may be repeated."),
        click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be repeated."),
        click.option("--op", "ops", multiple=True, metavar="OP", help="Only insert, update or delete; may be repeated."),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def query_options(command: F) -> F:
    """Options of a read query: its source, its parameters and the state of the graph."""
    decorators = [
        graph_target(then="[NAME]"),
        click.option("--query", "path", type=FILE, metavar="FILE", help="The file with the query."),
        click.option("-e", "text", metavar="GQ", help="The query itself."),
        read_options("datafusion", "duckdb", "spark"),
        ignore_unknown_option,
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command
