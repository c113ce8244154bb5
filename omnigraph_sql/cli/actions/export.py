"""`ogsql export`: a graph as records."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.atomic_write import replacement
from omnigraph_sql.cli.byte_streams import packed
from omnigraph_sql.cli.errors import warning_lines
from omnigraph_sql.cli.tables import count
from omnigraph_sql.cli.target import graph_uri, reading, usage_error
from omnigraph_sql.errors import OmnigraphWarning

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.export import ExportOptions
    from omnigraph_sql.graph import Graph


def run(options: ExportOptions) -> int:
    """Write the records to standard output, or to a file that is complete or not there at all."""
    if options.snapshot is not None and options.version is not None:
        raise usage_error("--snapshot and --at-version exclude each other")
    with reading(graph_uri(options.uri, options.store)) as graph:
        records = _records(graph, options)
        if options.out is None:
            # Records are UTF-8 whatever the terminal speaks.
            _copy(records, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return 0
        with replacement(options.out) as file, packed(file, options.out) as stream:
            number = _copy(records, stream)
    number -= options.with_schema  # the header is no record
    if options.as_json:
        output.write_json({"uri": graph.uri, "branch": options.branch, "out": options.out, "records": number})
    else:
        output.write(f"exported {count(number, 'record')} to {options.out}\n")
    return 0


def _records(graph: Graph, options: ExportOptions) -> Iterable[str]:
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always", OmnigraphWarning)
        records = graph.export(
            options.branch,
            options.types or None,
            version=options.version,
            commit=options.snapshot,
            with_schema=options.with_schema,
        )
    for warning in issued:
        output.write_styled(warning_lines(str(warning.message)), sys.stderr)
    return records


def _copy(records: Iterable[str], stream: IO[bytes]) -> int:
    number = 0
    for record in records:
        stream.write(record.encode() + b"\n")
        number += 1
    return number
