"""`ogsql query`: run a read query."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import ALL_FORMATS, ReadCommandOptions, format_option, json_option, query_options


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryOptions(ReadCommandOptions):
    """The command line of `ogsql query`."""

    words: tuple[str, ...]
    store: str | None
    path: str | None
    text: str | None
    ignore_unknown: bool
    format_: str
    as_json: bool


@click.command("query")
@query_options
@format_option(*ALL_FORMATS)
@json_option("The same as --format json.")
@takes(QueryOptions)
def query(options: QueryOptions) -> int:
    """Run the read query NAME on the graph URI.

    NAME can be left out if there is only one query.
    """
    from omnigraph_sql.cli import query_input
    from omnigraph_sql.cli.actions import query as querying

    source = query_input.query_source(options.path, options.text)
    arguments = querying.query_arguments(options, source, ignore_unknown=options.ignore_unknown)
    return querying.run(options.words, options.store, arguments, form="json" if options.as_json else options.format_)
