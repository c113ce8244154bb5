"""`ogsql export`: a graph as records."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.atomic_write import replacement
from omnigraph_sql.cli.byte_streams import packed
from omnigraph_sql.cli.tables import count
from omnigraph_sql.cli.target import graph_uri, reading

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.export import ExportOptions


def run(options: ExportOptions) -> int:
    """Write the records to standard output, or to a file that is complete or not there at all."""
    with reading(graph_uri(options.uri, options.store)) as graph:
        records = graph.export(options.branch, options.types or None)
        if options.out is None:
            # Records are UTF-8 whatever the terminal speaks.
            _copy(records, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return 0
        with replacement(options.out) as file, packed(file, options.out) as stream:
            number = _copy(records, stream)
    if options.as_json:
        output.write_json({"uri": graph.uri, "branch": options.branch, "out": options.out, "records": number})
    else:
        output.write(f"exported {count(number, 'record')} to {options.out}\n")
    return 0


def _copy(records: Iterable[str], stream: IO[bytes]) -> int:
    number = 0
    for record in records:
        stream.write(record.encode() + b"\n")
        number += 1
    return number
