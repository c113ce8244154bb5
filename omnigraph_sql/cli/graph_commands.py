"""The commands that work on a graph: names, arguments and help texts, as in `app`."""

from __future__ import annotations

from collections.abc import Callable

import click

from omnigraph_sql.cli.options import (
    ALL_FORMATS,
    FILE,
    F,
    branch_option,
    embed_option,
    format_option,
    graph_target,
    json_option,
    quiet_option,
    read_options,
    require_command,
    write_options,
    yes_option,
)

# Writing -------------------------------------------------------------------------------------------------------------


@click.command("init")
@graph_target()
@click.option("--schema", type=FILE, required=True, metavar="FILE", help="The schema of the graph, a .pg file.")
@click.option("--force", is_flag=True, help="Start again where an earlier init was interrupted.")
@write_options
@json_option()
def init(uri: str | None, store: str | None, schema: str, force: bool, actor: str | None, quiet: bool, as_json: bool) -> int:
    """Create an empty graph in the directory URI."""
    from omnigraph_sql.cli import creating

    return creating.run(uri, store, schema, force=force, actor=actor, quiet=quiet, as_json=as_json)


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
        branch_option("The branch to load into."),
        click.option("--message", metavar="TEXT", help="A note for the history."),
        click.option("--idempotency-key", metavar="KEY", help="Loads with the same key are done once per branch."),
        click.option("--rejects", metavar="FILE", help="Report every faulty record there, as JSON lines."),
        click.option("--max-rejects", metavar="N", type=click.IntRange(0), help="Leave out up to N faulty records."),
        embed_option,
        yes_option,
        write_options,
        json_option(),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


@click.command("load")
@_load_options
@click.option("--from", "base", metavar="BASE", help="Create the branch from this one if it does not exist.")
def load(
    uri: str | None,
    store: str | None,
    data: tuple[str, ...],
    mode: str,
    branch: str,
    base: str | None,
    message: str | None,
    idempotency_key: str | None,
    rejects: str | None,
    max_rejects: int | None,
    embed: str | None,
    yes: bool,
    actor: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Load data into the graph URI.

    Everything is checked against the schema and becomes one commit; if anything is wrong, nothing is loaded.
    """
    from omnigraph_sql.cli import loading

    order = loading.Order(data, mode, branch, base, message, idempotency_key, rejects, max_rejects, embed)
    return loading.run(uri, store, order, yes=yes, actor=actor, quiet=quiet, as_json=as_json)


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


@click.command("mutate")
@graph_target(then="[NAME]")
@click.option("--query", type=FILE, metavar="FILE", help="The file with the mutation.")
@click.option("-e", "text", metavar="GQ", help="The mutation itself.")
@click.option("--params", metavar="JSON", help="The parameters, one JSON object.")
@click.option("--params-file", type=FILE, metavar="FILE", help="A file with the parameters.")
@branch_option("The branch to change.")
@click.option("--if-commit", metavar="ID", help="Only if this is the newest commit of the branch; exits with 4 if not.")
@embed_option
@write_options
@json_option()
def mutate(
    words: tuple[str, ...],
    store: str | None,
    query: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    branch: str,
    if_commit: str | None,
    embed: str | None,
    actor: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run the mutation NAME on the graph URI.

    NAME can be left out if there is only one query.
    """
    from omnigraph_sql.cli import mutating

    source = mutating.source(query, text)
    values = mutating.parameters(params, params_file)
    order = mutating.Order(source, values, branch, if_commit, embed)
    return mutating.run(words, store, order, actor=actor, quiet=quiet, as_json=as_json)


# Reading -------------------------------------------------------------------------------------------------------------


def _query_options(command: Callable[..., int]) -> Callable[..., int]:
    """What names a read query, its parameters and what it reads."""
    decorators = [
        graph_target(then="[NAME]"),
        click.option("--query", "path", type=FILE, metavar="FILE", help="The file with the query."),
        click.option("-e", "text", metavar="GQ", help="The query itself."),
        read_options("datafusion", "duckdb", "spark"),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


@click.command("query")
@_query_options
@format_option(*ALL_FORMATS)
@json_option("The same as --format json.")
def query(
    words: tuple[str, ...],
    store: str | None,
    path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    branch: str,
    snapshot: str | None,
    version: int | None,
    timeout: str | None,
    memory: str | None,
    engine: str,
    format_: str,
    as_json: bool,
) -> int:
    """Run the read query NAME on the graph URI.

    NAME can be left out if there is only one query.
    """
    from omnigraph_sql.cli import mutating, querying

    values = mutating.parameters(params, params_file)
    limits = querying.seconds(timeout), querying.size(memory)
    order = querying.Order(mutating.source(path, text), values, branch, snapshot, version, *limits, engine)
    return querying.run(words, store, order, form="json" if as_json else format_)


@click.command("explain")
@_query_options
@click.option("--analyze", is_flag=True, help="Run the query, too, and show rows and times of each step.")
@click.option("--verbose", "-v", is_flag=True, help="Show the SQL and the engine's plans, too.")
@json_option()
def explain(
    words: tuple[str, ...],
    store: str | None,
    path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    branch: str,
    snapshot: str | None,
    version: int | None,
    timeout: str | None,
    memory: str | None,
    engine: str,
    analyze: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Show how the read query NAME runs on the graph URI, step by step."""
    from omnigraph_sql.cli import mutating, querying

    values = mutating.parameters(params, params_file)
    limits = querying.seconds(timeout), querying.size(memory)
    order = querying.Order(mutating.source(path, text), values, branch, snapshot, version, *limits, engine)
    return querying.explain(words, store, order, analyze=analyze, verbose=verbose, as_json=as_json)


@click.command("snapshot")
@graph_target()
@click.option("--branch", metavar="NAME", help="The branch.  [default: main]")
@click.option("--at-version", "version", type=click.IntRange(min=1), metavar="N", help="The branch as it was at a version.")
@click.option("--commit", metavar="ID", help="The graph as it was at a commit.")
@json_option()
def snapshot(
    uri: str | None, store: str | None, branch: str | None, version: int | None, commit: str | None, as_json: bool
) -> int:
    """Show the tables of the graph URI, their versions and row counts."""
    from omnigraph_sql.cli import showing

    return showing.snapshot(uri, store, branch=branch, version=version, commit=commit, as_json=as_json)


@click.command("export")
@graph_target()
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be repeated.")
@branch_option("The branch to export.")
@click.option("--out", type=FILE, metavar="FILE", help="Write to a file; gzipped if its name ends in .gz.")
@json_option("With --out print one JSON document; print errors as JSON too.")
def export(uri: str | None, store: str | None, types: tuple[str, ...], branch: str, out: str | None, as_json: bool) -> int:
    """Print the graph URI as records that `ogsql load` reads.

    One JSON object per line, always in the same order: nodes before edges, types by name, rows by id.
    """
    from omnigraph_sql.cli import exporting

    return exporting.run(uri, store, types=types, branch=branch, out=out, as_json=as_json)


# Upkeep --------------------------------------------------------------------------------------------------------------


@click.command("ensure-indices")
@graph_target()
@branch_option("The branch whose tables are looked at.")
@click.option("--lance-text", is_flag=True, help="Build Lance's own text indexes, too, for other readers of the tables.")
@write_options
@json_option()
def ensure_indices(
    uri: str | None, store: str | None, branch: str, lance_text: bool, actor: str | None, quiet: bool, as_json: bool
) -> int:
    """Build the indexes that the schema of the graph URI declares and its tables lack.

    Answers are the same without them.
    """
    from omnigraph_sql.cli import indexing

    return indexing.run(uri, store, branch=branch, lance_text=lance_text, actor=actor, quiet=quiet, as_json=as_json)


@click.command("cleanup")
@graph_target()
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the newest N versions of each table.")
@click.option("--older-than", metavar="TIME", help="Keep the versions that are not older than this: 12h, 7d, 4w.")
@click.option("--confirm", "confirmed", is_flag=True, help="Remove the rest. Without it, show what would be removed.")
@yes_option
@quiet_option
@json_option()
def cleanup(
    uri: str | None,
    store: str | None,
    keep: int | None,
    older_than: str | None,
    confirmed: bool,
    yes: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Remove old versions of the tables of the graph URI, and what interrupted writers left.

    What a branch shows always stays. With --keep and --older-than, a version goes only if neither keeps it.
    """
    from omnigraph_sql.cli import cleaning

    order = cleaning.Order(keep, cleaning.age(older_than), confirmed)
    return cleaning.run(uri, store, order, yes=yes, quiet=quiet, as_json=as_json)


# Branches ------------------------------------------------------------------------------------------------------------


@click.group("branch", invoke_without_command=True)
@click.pass_context
def branch_group(context: click.Context) -> None:
    """Create, list and delete branches."""
    require_command(context)


@branch_group.command("create")
@graph_target(then="NAME")
@click.option("--from", "base", default="main", show_default=True, metavar="BASE", help="The branch to start from.")
@write_options
@json_option()
def branch_create(
    words: tuple[str, ...], store: str | None, base: str, actor: str | None, quiet: bool, as_json: bool
) -> int:
    """Create the branch NAME in the graph URI."""
    from omnigraph_sql.cli import branching

    return branching.create(words, store, base=base, actor=actor, quiet=quiet, as_json=as_json)


@branch_group.command("list")
@graph_target()
@json_option()
def branch_list(uri: str | None, store: str | None, as_json: bool) -> int:
    """List the branches of the graph URI."""
    from omnigraph_sql.cli import branching

    return branching.show(uri, store, as_json=as_json)


@branch_group.command("delete")
@graph_target(then="NAME")
@yes_option
@write_options
@json_option()
def branch_delete(
    words: tuple[str, ...], store: str | None, yes: bool, actor: str | None, quiet: bool, as_json: bool
) -> int:
    """Delete the branch NAME of the graph URI, with everything that is only on it."""
    from omnigraph_sql.cli import branching

    return branching.delete(words, store, yes=yes, actor=actor, quiet=quiet, as_json=as_json)


# History -------------------------------------------------------------------------------------------------------------


@click.group("commit", invoke_without_command=True)
@click.pass_context
def commit_group(context: click.Context) -> None:
    """Look at the history of a graph."""
    require_command(context)


@commit_group.command("list")
@graph_target()
@branch_option("The branch whose history is shown.")
@click.option("--actor", metavar="ACTOR", help="Only commits of this author.")
@json_option()
def commit_list(uri: str | None, store: str | None, branch: str, actor: str | None, as_json: bool) -> int:
    """List the commits of the graph URI, newest first."""
    from omnigraph_sql.cli import showing

    return showing.commits(uri, store, branch=branch, actor=actor, as_json=as_json)


@commit_group.command("show")
@graph_target(then="ID")
@json_option()
def commit_show(words: tuple[str, ...], store: str | None, as_json: bool) -> int:
    """Show the commit ID of the graph URI."""
    from omnigraph_sql.cli import showing

    return showing.commit(words, store, as_json=as_json)


@click.group("recovery", invoke_without_command=True)
@click.pass_context
def recovery_group(context: click.Context) -> None:
    """Look at what interrupted writes left behind."""
    require_command(context)


@recovery_group.command("list")
@graph_target()
@json_option()
def recovery_list(uri: str | None, store: str | None, as_json: bool) -> int:
    """List interrupted operations of the graph URI, and those that were recovered.

    Recovers nothing itself; the next write does.
    """
    from omnigraph_sql.cli import showing

    return showing.recoveries(uri, store, as_json=as_json)


COMMANDS: tuple[click.Command, ...] = (
    init,
    load,
    ingest,
    mutate,
    query,
    explain,
    ensure_indices,
    cleanup,
    snapshot,
    export,
    branch_group,
    commit_group,
    recovery_group,
)
