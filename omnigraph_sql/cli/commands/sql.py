"""`ogsql sql`: run a statement."""

from __future__ import annotations

from dataclasses import dataclass

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
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlOptions(ReadCommandOptions):
    """The command line of `ogsql sql`."""

    words: tuple[str, ...]
    store: str | None
    text: str | None
    path: str | None
    ignore_unknown: bool
    isolated: bool
    format_: str
    as_json: bool


@click.command("sql")
@graph_target(then="[STATEMENT]")
@click.option("-e", "text", metavar="SQL", help="The statement, instead of the argument STATEMENT.")
@click.option("--file", "path", type=FILE, metavar="FILE", help="A file with the statement.")
@read_options("datafusion", "duckdb")
@ignore_unknown_option
@click.option("--isolated", is_flag=True, help="Run it in a process of its own, whose memory is limited as a whole.")
@format_option(*ALL_FORMATS)
@json_option("The same as --format json.")
@takes(SqlOptions)
def sql(options: SqlOptions) -> int:
    """Run an SQL statement that reads on the graph URI.

    Tables are the types of the graph, `$name` is a parameter, and "BRANCH"."TYPE" reads another branch.
    """
    from omnigraph_sql.cli.actions import query

    uri, source = query.statement(options.words, options.store, options.text, options.path)
    arguments = query.query_arguments(options, source, ignore_unknown=options.ignore_unknown)
    return query.run_sql(uri, arguments, form="json" if options.as_json else options.format_, isolated=options.isolated)
