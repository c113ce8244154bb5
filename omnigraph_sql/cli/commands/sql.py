"""`ogsql sql`: run a statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import (
    ALL_FORMATS,
    FILE,
    ReadCommandOptions,
    format_option,
    graph_target,
    ignore_unknown_option,
    json_option,
    read_options,
    write_options,
)

if TYPE_CHECKING:
    from omnigraph_sql.cli.query_input import QuerySource


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlOptions(ReadCommandOptions):
    """The command line of `ogsql sql`."""

    words: tuple[str, ...]
    store: str | None
    text: str | None
    path: str | None
    ignore_unknown: bool
    isolated: bool
    write: bool
    message: str | None
    idempotency_key: str | None
    actor: str | None
    quiet: bool
    format_: str
    as_json: bool


@click.command("sql")
@graph_target(then="[STATEMENT]")
@click.option("-e", "text", metavar="SQL", help="The statement, instead of the argument STATEMENT.")
@click.option("--file", "path", type=FILE, metavar="FILE", help="A file with the statement.")
@read_options("datafusion", "duckdb")
@ignore_unknown_option
@click.option("--isolated", is_flag=True, help="Run it in a process of its own, whose memory is limited as a whole.")
@click.option("--write", is_flag=True, help="The statements may change the graph; they are published as one commit.")
@click.option("--message", metavar="TEXT", help="With --write, a note for the history.")
@click.option("--idempotency-key", metavar="KEY", help="With --write, scripts of one key are published once per branch.")
@write_options
@format_option(*ALL_FORMATS)
@json_option("The same as --format json.")
@takes(SqlOptions)
def sql(options: SqlOptions) -> int:
    """Run an SQL statement that reads on the graph URI; with --write, statements that may change it.

    Tables are the types of the graph, `$name` is a parameter, and "BRANCH"."TYPE" reads another branch.
    """
    from omnigraph_sql.cli.actions import query

    uri, source = query.statement(options.words, options.store, options.text, options.path)
    if options.write:
        return _write(options, uri, source)
    arguments = query.query_arguments(options, source, ignore_unknown=options.ignore_unknown)
    return query.run_sql(uri, arguments, form="json" if options.as_json else options.format_, isolated=options.isolated)


def _write(options: SqlOptions, uri: str, source: QuerySource) -> int:
    from omnigraph_sql.cli.actions import execute
    from omnigraph_sql.cli.query_input import parameters
    from omnigraph_sql.cli.target import usage_error

    others = {
        "--snapshot": options.snapshot,
        "--at-version": options.version,
        "--isolated": options.isolated or None,
        "--timeout": options.timeout,
        "--memory": options.memory,
        "--ignore-unknown-params": options.ignore_unknown or None,
    }
    for name, value in others.items():
        if value is not None:
            raise usage_error(f"{name} and --write exclude each other")
    arguments = execute.ExecuteArguments(
        source=source,
        params=parameters(options.params, options.params_file),
        branch=options.branch,
        engine=options.engine,
        message=options.message,
        idempotency_key=options.idempotency_key,
    )
    form = "json" if options.as_json else options.format_
    return execute.run(uri, arguments, actor=options.actor, quiet=options.quiet, form=form)
