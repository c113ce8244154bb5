"""`ogsql fmt`: rewrite schemas and queries in the canonical layout."""

from __future__ import annotations

import click

from omnigraph_sql.cli.options import FILE, json_option


@click.command("fmt")
@click.argument("files", type=FILE, nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; list the files that would change, and exit with 1 if any.")
@click.option("--language", type=click.Choice(["pg", "gq"]), help="The language of standard input, with FILES = `-`.")
@json_option()
def fmt(files: tuple[str, ...], check: bool, language: str | None, as_json: bool) -> int:
    """Format schemas and queries in place.

    The suffix of a file (.pg or .gq) decides how it is read. `-` formats standard input to standard output.
    """
    from omnigraph_sql.cli.actions import fmt as formatting

    return formatting.run(files, check=check, language=language, as_json=as_json)
