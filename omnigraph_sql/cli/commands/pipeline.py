"""`ogsql pipeline`: run pipelines, check them, and show what they would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import click

from omnigraph_sql.choices import PipelineEngineName
from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import FILE, F, json_option, require_command, write_options, yes_option


def _common(command: F) -> F:
    decorators: list[Callable[[F], F]] = [
        click.argument("file", type=FILE),
        click.option(
            "--engine",
            type=click.Choice(["spark", "local"]),
            help="Spark, or DuckDB in this process for data of one machine; the outcome is the same. By default local, "
            "unless a cluster is named (--master, SPARK_REMOTE) or only Spark reads a source.",
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


@click.group("pipeline", invoke_without_command=True)
@click.pass_context
def pipeline(context: click.Context) -> None:
    """Run pipelines: from raw files to a checked graph, in one commit."""
    require_command(context)


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineRunOptions:
    """The command line of `ogsql pipeline run`."""

    file: str
    engine: PipelineEngineName | None
    branch: str | None
    key: str | None
    format_: str
    as_json: bool
    master: str | None
    yes: bool
    actor: str | None
    quiet: bool


@pipeline.command("run")
@_common
@click.option("--master", metavar="MASTER", help="Where Spark runs: local[4], spark://HOST:PORT, sc://HOST:PORT.")
@yes_option
@write_options
@takes(PipelineRunOptions)
def pipeline_run(options: PipelineRunOptions) -> int:
    """Run the pipeline in FILE.

    Everything it declares becomes one commit, after its tests passed; if anything is wrong, nothing is published. A run with
    a key that was published before does nothing.
    """
    from omnigraph_sql.cli.actions import pipeline as pipelines

    arguments = pipelines.PipelineArguments(options.file, options.engine, options.branch, options.key, options.master)
    return pipelines.run(
        arguments,
        yes=options.yes,
        actor=options.actor,
        quiet=options.quiet,
        as_json=options.as_json or options.format_ == "json",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineOptions:
    """The command line of `ogsql pipeline validate` and `ogsql pipeline plan`."""

    file: str
    engine: PipelineEngineName | None
    branch: str | None
    key: str | None
    format_: str
    as_json: bool


@pipeline.command("validate")
@_common
@takes(PipelineOptions)
def pipeline_validate(options: PipelineOptions) -> int:
    """Check the pipeline in FILE against its sources and its graph. No rows are read."""
    from omnigraph_sql.cli.actions import pipeline as pipelines

    return pipelines.validate(
        pipelines.PipelineArguments(options.file, options.engine, options.branch, options.key),
        as_json=options.as_json or options.format_ == "json",
    )


@pipeline.command("plan")
@_common
@takes(PipelineOptions)
def pipeline_plan(options: PipelineOptions) -> int:
    """Show what a run of the pipeline in FILE would read, and the SQL of each of its targets."""
    from omnigraph_sql.cli.actions import pipeline as pipelines

    return pipelines.plan(
        pipelines.PipelineArguments(options.file, options.engine, options.branch, options.key),
        as_json=options.as_json or options.format_ == "json",
    )
