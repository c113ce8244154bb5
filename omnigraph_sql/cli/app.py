"""The commands of `ogsql`. Each is declared in a module of `cli.commands`, which is imported when it is used."""

from __future__ import annotations

import click

from omnigraph_sql._version import __version__
from omnigraph_sql.cli.lazy_group import LazyCommand, LazyGroup
from omnigraph_sql.cli.options import require_command

COMMANDS = {
    "branch": LazyCommand("branch:branch", "Create, list, merge and delete branches."),
    "cherry-pick": LazyCommand("replay:cherry_pick", "Apply the changes of the commit COMMIT to a branch of the graph URI."),
    "changes": LazyCommand("changes:changes", "Follow the changes of a branch."),
    "cleanup": LazyCommand(
        "cleanup:cleanup", "Remove old versions of the tables of the graph URI, and what interrupted writers left."
    ),
    "commit": LazyCommand("commit:commit", "Look at the history of a graph."),
    "compile": LazyCommand(
        "compile:compile_", "Compile the queries of a file and print the outcome as JSON, or as SQL with comments."
    ),
    "completion": LazyCommand("completion:completion", "Print the completion script for a shell."),
    "copy": LazyCommand("copy:copy", "Copy the graph URI to TARGET, a directory or s3://BUCKET/PREFIX that is empty."),
    "diff": LazyCommand("diff:diff", "Show what was inserted, updated and deleted between two states of the graph URI."),
    "embed": LazyCommand("embed:embed", "Compute the vectors that the records in FILE lack, and print the records."),
    "ensure-indices": LazyCommand(
        "ensure_indices:ensure_indices", "Build the indexes that the schema of the graph URI declares and its tables lack."
    ),
    "explain": LazyCommand("explain:explain", "Show how the read query NAME runs on the graph URI, step by step."),
    "export": LazyCommand("export:export", "Print the graph URI as records that `ogsql load` reads."),
    "fmt": LazyCommand("fmt:fmt", "Format schemas and queries in place."),
    "ingest": LazyCommand("load:ingest", "Load data into a branch, which is created if it does not exist."),
    "init": LazyCommand("init:init", "Create a graph in the directory URI, empty or from a bundle."),
    "lint": LazyCommand("lint:lint", "Check query files against a schema."),
    "load": LazyCommand("load:load", "Load data into the graph URI."),
    "mutate": LazyCommand("mutate:mutate", "Run the mutation NAME on the graph URI."),
    "pipeline": LazyCommand("pipeline:pipeline", "Run pipelines: from raw files to a checked graph, in one commit."),
    "query": LazyCommand("query:query", "Run the read query NAME on the graph URI."),
    "recovery": LazyCommand("recovery:recovery", "Look at what interrupted writes left behind."),
    "restore": LazyCommand("replay:restore", "Give a branch of the graph URI the rows of the earlier state REF."),
    "revert": LazyCommand("replay:revert", "Take the commit COMMIT of the graph URI back."),
    "schema": LazyCommand("schema:schema", "Work with schemas."),
    "shell": LazyCommand("shell:shell", "Ask the graph URI in .gq and SQL, at one prompt."),
    "snapshot": LazyCommand("snapshot:snapshot", "Show the tables of the graph URI, their versions and row counts."),
    "sql": LazyCommand(
        "sql:sql", "Run an SQL statement that reads on the graph URI; with --write, statements that may change it."
    ),
    "tag": LazyCommand("tag:tag", "Create, list and delete tags."),
    "version": LazyCommand("version:version", "Show the version."),
}


@click.group(
    cls=LazyGroup,
    declared=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="ogsql", message="%(prog)s %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Create, load, change and branch graphs; check, format and compile their schemas (.pg) and queries (.gq)."""
    require_command(context)
