"""The commands of pipelines: names, arguments and help texts, as in `app`."""

from __future__ import annotations

from collections.abc import Callable

import click

from omnigraph_sql.cli.options import FILE, F, json_option, require_command, write_options, yes_option


@click.group("pipeline", invoke_without_command=True)
@click.pass_context
def pipeline(context: click.Context) -> None:
    """Run pipelines: from raw files to a checked graph, in one commit."""
    require_command(context)


def _common(command: F) -> F:
    decorators: list[Callable[[F], F]] = [
        click.argument("file", type=FILE),
        click.option(
            "--engine",
            type=click.Choice(["spark", "local"]),
            default="spark",
            show_default=True,
            help="Spark, or DuckDB in this process for data of one machine. The outcome is the same.",
        ),
        click.option("--branch", metavar="NAME", help="The branch, instead of the one in the file."),
        click.option("--key", metavar="KEY", help="The key of the run, instead of the one in the file or of its inputs."),
        click.option(
            "--format",
            "format_",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="What to print.",
        ),
        json_option("The same as --format json; print errors as JSON too."),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


@pipeline.command("run")
@_common
@click.option("--master", metavar="MASTER", help="Where Spark runs: local[4], spark://HOST:PORT, sc://HOST:PORT.")
@yes_option
@write_options
def run(
    file: str,
    engine: str,
    branch: str | None,
    key: str | None,
    format_: str,
    as_json: bool,
    master: str | None,
    yes: bool,
    actor: str | None,
    quiet: bool,
) -> int:
    """Run the pipeline in FILE.

    Everything it declares becomes one commit, after its tests passed; if anything is wrong, nothing is published. A run with
    a key that was published before does nothing.
    """
    from omnigraph_sql.cli import pipelines

    order = pipelines.Order(file, engine, branch, key, master)
    return pipelines.run(order, yes=yes, actor=actor, quiet=quiet, as_json=as_json or format_ == "json")


@pipeline.command("validate")
@_common
def validate(file: str, engine: str, branch: str | None, key: str | None, format_: str, as_json: bool) -> int:
    """Check the pipeline in FILE against its sources and its graph. No rows are read."""
    from omnigraph_sql.cli import pipelines

    return pipelines.validate(pipelines.Order(file, engine, branch, key), as_json=as_json or format_ == "json")


@pipeline.command("plan")
@_common
def plan(file: str, engine: str, branch: str | None, key: str | None, format_: str, as_json: bool) -> int:
    """Show what a run of the pipeline in FILE would read, and the SQL of each of its targets."""
    from omnigraph_sql.cli import pipelines

    return pipelines.plan(pipelines.Order(file, engine, branch, key), as_json=as_json or format_ == "json")


COMMANDS = (pipeline,)
