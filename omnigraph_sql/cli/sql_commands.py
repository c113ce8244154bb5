"""The commands that speak SQL: names, arguments and help texts, as in `app`."""

from __future__ import annotations

import click

from omnigraph_sql.cli.options import (
    ALL_FORMATS,
    FILE,
    TEXT_FORMATS,
    config_option,
    format_option,
    graph_target,
    json_option,
    read_options,
)


@click.command("sql")
@graph_target(then="[STATEMENT]")
@click.option("-e", "text", metavar="SQL", help="The statement, instead of the argument STATEMENT.")
@click.option("--file", "path", type=FILE, metavar="FILE", help="A file with the statement.")
@read_options("datafusion", "duckdb")
@config_option
@format_option(*ALL_FORMATS)
@json_option("The same as --format json.")
def sql(
    words: tuple[str, ...],
    store: str | None,
    text: str | None,
    path: str | None,
    params: str | None,
    params_file: str | None,
    branch: str,
    snapshot: str | None,
    version: int | None,
    timeout: str | None,
    memory: str | None,
    engine: str,
    config: str | None,
    format_: str,
    as_json: bool,
) -> int:
    """Run an SQL statement that reads on the graph URI.

    Tables are the types of the graph, `$name` is a parameter, and "BRANCH"."TYPE" reads another branch.
    """
    from omnigraph_sql.cli import mutating, querying

    uri, source = querying.statement(words, store, text, path)
    values = mutating.parameters(params, params_file)
    limits = querying.seconds(timeout), querying.size(memory)
    order = querying.Order(source, values, branch, snapshot, version, *limits, engine)
    return querying.run_sql(uri, order, form="json" if as_json else format_, config=config)


@click.command("shell")
@graph_target()
@read_options("datafusion", "duckdb")
@config_option
@format_option(*TEXT_FORMATS)
@click.option("--read-only", is_flag=True, help="Refuse mutations.")
@click.option("--as", "actor", metavar="ACTOR", help="Who is recorded as the author of mutations.")
@click.option("--keep-going", is_flag=True, help="Without a terminal: go on after an error.")
def shell(
    uri: str | None,
    store: str | None,
    params: str | None,
    params_file: str | None,
    branch: str,
    snapshot: str | None,
    version: int | None,
    timeout: str | None,
    memory: str | None,
    engine: str,
    config: str | None,
    format_: str,
    read_only: bool,
    actor: str | None,
    keep_going: bool,
) -> int:
    """Ask the graph URI in .gq and SQL, at one prompt.

    Without a terminal the statements come from standard input, and the first error ends the command.
    """
    from omnigraph_sql.cli import mutating, querying
    from omnigraph_sql.cli.shell import opening

    values = mutating.parameters(params, params_file)
    limits = querying.seconds(timeout), querying.size(memory)
    order = opening.Order(values, branch, snapshot, version, *limits, form=format_, engine=engine)
    return opening.run(uri, store, order, config=config, read_only=read_only, actor=actor, keep_going=keep_going)


COMMANDS: tuple[click.Command, ...] = (sql, shell)
