"""`ogsql embed`: vectors for the records of a file."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph_sql.cli.arguments import takes
from omnigraph_sql.cli.options import FILE, config_option, json_option


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedOptions:
    """The command line of `ogsql embed`."""

    file: str
    schema: str | None
    store: str | None
    reembed_all: bool
    clean: bool
    types: tuple[str, ...]
    selects: tuple[str, ...]
    out: str | None
    as_json: bool


@click.command("embed")
@click.argument("file", type=FILE, default="-")
@click.option(
    "--schema", type=FILE, metavar="FILE", help="The schema of the records, a .pg file.  [default: that of the project file]"
)
@click.option("--store", type=FILE, metavar="URI", help="A graph whose schema is used instead.")
@config_option
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
@takes(EmbedOptions)
def embed(options: EmbedOptions) -> int:
    """Compute the vectors that the records in FILE lack, and print the records.

    FILE holds records as `ogsql load` reads them; `-`, the default, is standard input. Vectors of properties with @embed are
    computed by the provider that the environment names. All other lines stay as they are.
    """
    from omnigraph_sql.cli.actions import embed as embedding

    arguments = embedding.EmbedArguments(options.types, options.selects, options.reembed_all, options.clean)
    return embedding.run(
        options.file, arguments, schema=options.schema, store=options.store, out=options.out, as_json=options.as_json
    )
