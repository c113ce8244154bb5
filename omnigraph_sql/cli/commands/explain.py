"""`ogsql explain`: how a read query runs."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import ReadCommandOptions, json_option, query_options


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainOptions(ReadCommandOptions):
    """The command line of `ogsql explain`."""

    words: tuple[str, ...]
    store: str | None
    path: str | None
    text: str | None
    ignore_unknown: bool
    analyze: bool
    verbose: bool
    as_json: bool


@click.command("explain")
@query_options
@click.option("--analyze", is_flag=True, help="Run the query, too, and show rows and times of each step.")
@click.option("--verbose", "-v", is_flag=True, help="Show the SQL and the engine's plans, too.")
@json_option()
@takes(ExplainOptions)
def explain(options: ExplainOptions) -> int:
    """Show how the read query NAME runs on the graph URI, step by step."""
    from omnigraph_sql.cli import query_input
    from omnigraph_sql.cli.actions import query as querying

    source = query_input.query_source(options.path, options.text)
    arguments = querying.query_arguments(options, source, ignore_unknown=options.ignore_unknown)
    return querying.explain(
        options.words, options.store, arguments, analyze=options.analyze, verbose=options.verbose, as_json=options.as_json
    )
