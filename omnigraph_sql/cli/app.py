"""The commands of `ogsql`: names, arguments and help texts. What they do stands in modules imported when they run."""

from __future__ import annotations

import click

from omnigraph_sql._version import __version__
from omnigraph_sql.cli import graph_commands, pipeline_commands, sql_commands
from omnigraph_sql.cli.options import FILE, json_option, require_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(__version__, prog_name="ogsql", message="%(prog)s %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Create, load, change and branch graphs; check, format and compile their schemas (.pg) and queries (.gq)."""
    require_command(context)


@app.command()
@click.argument("schema", type=FILE)
@click.argument("queries", type=FILE, nargs=-1, required=True)
@json_option()
def lint(schema: str, queries: tuple[str, ...], as_json: bool) -> int:
    """Check query files against a schema.

    Exits with 1 if there is an error; warnings alone do not fail.
    """
    from omnigraph_sql.cli import linting

    return linting.run(schema, queries, as_json=as_json)


@app.command()
@click.argument("files", type=FILE, nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; list the files that would change, and exit with 1 if any.")
@click.option("--language", type=click.Choice(["pg", "gq"]), help="The language of standard input, with FILES = `-`.")
@json_option()
def fmt(files: tuple[str, ...], check: bool, language: str | None, as_json: bool) -> int:
    """Format schemas and queries in place.

    The suffix of a file (.pg or .gq) decides how it is read. `-` formats standard input to standard output.
    """
    from omnigraph_sql.cli import formatting

    return formatting.run(files, check=check, language=language, as_json=as_json)


@app.group(invoke_without_command=True)
@click.pass_context
def schema(context: click.Context) -> None:
    """Work with schemas."""
    require_command(context)


@schema.command()
@click.argument("new", type=FILE)
@click.option("--from", "old", type=FILE, required=True, metavar="OLD", help="The schema in force.")
@json_option()
def plan(new: str, old: str, as_json: bool) -> int:
    """Show the steps that lead from the schema OLD to the schema NEW.

    Exits with 1 if a step is not supported.
    """
    from omnigraph_sql.cli import planning

    return planning.run(old, new, as_json=as_json)


@app.command("compile")
@click.argument("schema", type=FILE)
@click.argument("queries", type=FILE)
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
def compile_(schema: str, queries: str, name: str | None, emit: str, dialect: str | None, as_json: bool) -> int:
    """Compile the queries of a file and print the outcome as JSON, or as SQL with comments.

    SQL is made without a graph: how large its tables are can change the order of steps when a query runs.
    """
    from omnigraph_sql.cli import compiling

    if emit == "sql":
        return compiling.sql(schema, queries, name=name, dialect=dialect or "datafusion", as_json=as_json)
    if dialect is not None:
        raise click.UsageError("--dialect is for --emit sql")
    return compiling.run(schema, queries, name=name, emit=emit)


@app.command()
@click.argument("file", type=FILE, default="-")
@click.option("--schema", type=FILE, metavar="FILE", help="The schema of the records, a .pg file.")
@click.option("--store", type=FILE, metavar="URI", help="A graph whose schema is used instead.")
@click.option("--reembed-all", is_flag=True, help="Compute all vectors anew, also those that are there.")
@click.option("--clean", is_flag=True, help="Remove the vectors instead.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only records of this type; may be repeated.")
@click.option(
    "--select",
    "selects",
    multiple=True,
    metavar="TYPE:PROPERTY=VALUE",
    help="Only records of this type with this value; may be repeated, and one of them must fit.",
)
@click.option("--output", "--out", "out", type=FILE, metavar="FILE", help="Write to a file; gzipped if it ends in .gz.")
@json_option("With --output print one JSON document; print errors as JSON too.")
def embed(
    file: str,
    schema: str | None,
    store: str | None,
    reembed_all: bool,
    clean: bool,
    types: tuple[str, ...],
    selects: tuple[str, ...],
    out: str | None,
    as_json: bool,
) -> int:
    """Compute the vectors that the records in FILE lack, and print the records.

    FILE holds records as `ogsql load` reads them; `-`, the default, is standard input. Vectors of properties with @embed are
    computed by the provider that the environment names. All other lines stay as they are.
    """
    from omnigraph_sql.cli import embedding

    order = embedding.Order(types, selects, reembed_all, clean)
    return embedding.run(file, order, schema=schema, store=store, out=out, as_json=as_json)


@app.command()
@json_option()
def version(as_json: bool) -> int:
    """Show the version.

    With --json also those of Python and of the libraries that graphs are read and written with.
    """
    from omnigraph_sql.cli import about

    return about.version(as_json=as_json)


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script for a shell.

    \b
    bash: eval "$(ogsql completion bash)"          in ~/.bashrc
    zsh:  eval "$(ogsql completion zsh)"           in ~/.zshrc
    fish: ogsql completion fish > ~/.config/fish/completions/ogsql.fish
    """  # noqa: D301 (click reads the backspace character as "do not re-wrap")
    from omnigraph_sql.cli import about

    return about.completion(app, shell)


for _command in (*graph_commands.COMMANDS, *sql_commands.COMMANDS, *pipeline_commands.COMMANDS):
    app.add_command(_command)
