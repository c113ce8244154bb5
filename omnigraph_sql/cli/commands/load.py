"""`ogsql load` and `ogsql ingest`: data into a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import click

from omnigraph_sql.choices import ExtraColumns, LoadMode
from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import (
    FILE,
    F,
    branch_option,
    embed_option,
    graph_target,
    json_option,
    reject_limit,
    write_options,
    yes_option,
)


def _load_options(command: F) -> F:
    decorators: list[Callable[[F], F]] = [
        graph_target(),
        click.option(
            "--data",
            type=FILE,
            required=True,
            multiple=True,
            metavar="FILE | TYPE=FILE",
            help="Records, one JSON object per line, also gzipped; `-` is standard input. "
            "Or tables (.parquet, .csv, .arrow), each with the type of its rows; may be repeated.",
        ),
        click.option(
            "--mode",
            type=click.Choice(["append", "merge", "overwrite"]),
            required=True,
            help="Add new rows only, add or replace rows, or replace all rows of the types in the data.",
        ),
        branch_option("The branch to load into.", writes=True),
        click.option("--message", metavar="TEXT", help="A note for the history."),
        click.option("--idempotency-key", metavar="KEY", help="Loads with the same key are done once per branch."),
        click.option("--rejects", metavar="FILE", help="Report every faulty record there, as JSON lines."),
        click.option(
            "--max-rejects",
            metavar="N | N%",
            callback=reject_limit,
            help="Leave out up to N faulty records, or a share of them as 0.5%.",
        ),
        click.option("--csv-delimiter", metavar="CHAR", help="What separates the cells of CSV files; \\t is a tab."),
        click.option("--csv-quote", metavar="CHAR", help="What encloses cells of CSV files."),
        click.option("--csv-encoding", metavar="NAME", help="The encoding of CSV files, as latin-1."),
        click.option("--csv-null", metavar="TEXT", multiple=True, help="A cell of CSV files that is null; may be repeated."),
        click.option("--csv-names", metavar="A,B,…", help="The columns of CSV files, which then have no header."),
        click.option("--csv-header/--no-csv-header", default=None, help="With --csv-names: there is a header to pass over."),
        click.option("--skip-extra-columns", is_flag=True, help="Pass over columns of tables that are no properties."),
        embed_option,
        yes_option,
        write_options,
        json_option(),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadOptions:
    """The command line of `ogsql load`."""

    uri: str | None
    store: str | None
    data: tuple[str, ...]
    mode: LoadMode
    branch: str
    base: str | None
    message: str | None
    idempotency_key: str | None
    rejects: str | None
    max_rejects: int | str | None
    csv_delimiter: str | None
    csv_quote: str | None
    csv_encoding: str | None
    csv_null: tuple[str, ...]
    csv_names: str | None
    csv_header: bool | None
    skip_extra_columns: bool
    embed: str | None
    yes: bool
    actor: str | None
    quiet: bool
    as_json: bool


@click.command("load")
@_load_options
@click.option("--from", "base", metavar="BASE", help="Create the branch from this one if it does not exist.")
@takes(LoadOptions)
def load(options: LoadOptions) -> int:
    """Load data into the graph URI.

    Everything is checked against the schema and becomes one commit; if anything is wrong, nothing is loaded.
    """
    from omnigraph_sql.cli.actions import load as loading

    csv = loading.csv_options(
        options.csv_delimiter,
        options.csv_quote,
        options.csv_encoding,
        options.csv_null,
        options.csv_names,
        options.csv_header,
    )
    extra: ExtraColumns = "skip" if options.skip_extra_columns else "refuse"
    arguments = loading.LoadArguments(
        data=options.data,
        mode=options.mode,
        branch=options.branch,
        base=options.base,
        message=options.message,
        idempotency_key=options.idempotency_key,
        rejects=options.rejects,
        max_rejects=options.max_rejects,
        embed=options.embed,
        csv=csv or None,
        extra_columns=extra,
    )
    return loading.run(
        options.uri,
        options.store,
        arguments,
        yes=options.yes,
        actor=options.actor,
        quiet=options.quiet,
        as_json=options.as_json,
    )


@click.command("ingest")
@_load_options
@click.option(
    "--from",
    "base",
    default="main",
    show_default=True,
    metavar="BASE",
    help="Create the branch from this one if it does not exist.",
)
@click.pass_context
def ingest(context: click.Context, /, **options: object) -> int:
    """Load data into a branch, which is created if it does not exist.

    The same as `ogsql load --from main`.
    """
    status: int = context.invoke(load, **options)
    return status
