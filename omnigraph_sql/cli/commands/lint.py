"""`ogsql lint`: check query files against a schema."""

from __future__ import annotations

import click

from omnigraph_sql.cli.options import FILE, config_option, json_option


@click.command("lint")
@click.argument("words", type=FILE, nargs=-1, metavar="[SCHEMA] [QUERIES]...")
@config_option
@json_option()
def lint(words: tuple[str, ...], as_json: bool) -> int:
    """Check query files against a schema.

    Files that are left out are those of the project file. Exits with 1 if there is an error; warnings alone do not fail.
    """
    from omnigraph_sql.cli import projects

    schema, queries = projects.schema_and_queries(words)
    from omnigraph_sql.cli.actions import lint as linting

    return linting.run(schema, queries, as_json=as_json)
