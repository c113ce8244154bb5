"""`ogsql export`: a graph as records."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import FILE, branch_option, graph_target, json_option


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportOptions:
    """The command line of `ogsql export`."""

    uri: str | None
    store: str | None
    types: tuple[str, ...]
    branch: str
    snapshot: str | None
    version: int | None
    with_schema: bool
    out: str | None
    as_json: bool


@click.command("export")
@graph_target()
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be repeated.")
@branch_option("The branch to export.")
@click.option("--snapshot", metavar="ID", help="Export the graph as it was at a commit or tag.")
@click.option(
    "--at-version", "version", type=click.IntRange(min=1), metavar="N", help="Export an earlier version of the branch."
)
@click.option(
    "--with-schema", is_flag=True, help="Write the schema before the records: `ogsql init --from` makes a graph of it."
)
@click.option("--out", type=FILE, metavar="FILE", help="Write to a file; gzipped if its name ends in .gz.")
@json_option("With --out print one JSON document; print errors as JSON too.")
@takes(ExportOptions)
def export(options: ExportOptions) -> int:
    """Print the graph URI as records that `ogsql load` reads.

    One JSON object per line, always in the same order: nodes before edges, types by name, rows by id. Relational tables and
    views are not exported.
    """
    from omnigraph_sql.cli.actions import export as exporting

    return exporting.run(options)
