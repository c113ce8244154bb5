"""`ogsql compile`: what the compiler makes of a query file."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import FILE, config_option, json_option


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileOptions:
    """The command line of `ogsql compile`."""

    words: tuple[str, ...]
    name: str | None
    emit: str
    dialect: str | None
    as_json: bool


@click.command("compile")
@click.argument("words", type=FILE, nargs=-1, metavar="[SCHEMA] [QUERIES]")
@config_option
@click.option("--query", "name", metavar="NAME", help="Compile this query only.")
@click.option(
    "--emit",
    type=click.Choice(["ir", "ast", "descriptor", "sql"]),
    default="ir",
    show_default=True,
    help="What to print: the plan, the syntax tree, what the query returns, reads and writes, or its SQL.",
)
@click.option(
    "--dialect",
    type=click.Choice(["datafusion", "duckdb", "spark"]),
    help="The engine that the SQL is for.  [default: datafusion]",
)
@json_option("Print errors and SQL as JSON too.")
@takes(CompileOptions)
def compile_(options: CompileOptions) -> int:
    """Compile the queries of a file and print the outcome as JSON, or as SQL with comments.

    Files that are left out are those of the project file. SQL is made without a graph: how large its tables are can change
    the order of steps when a query runs.
    """
    from omnigraph_sql.cli import projects
    from omnigraph_sql.cli.actions import compile

    schema, files = projects.schema_and_queries(options.words)
    if len(files) != 1:
        raise click.UsageError(f"name one file of queries; there are {len(files)}: {' '.join(files[:8])}")
    queries = files[0]
    if options.emit == "sql":
        return compile.sql(
            schema, queries, name=options.name, dialect=options.dialect or "datafusion", as_json=options.as_json
        )
    if options.dialect is not None:
        raise click.UsageError("--dialect is for --emit sql")
    return compile.run(schema, queries, name=options.name, emit=options.emit)
