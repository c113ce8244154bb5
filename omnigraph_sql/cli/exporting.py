"""`ogsql export`: a graph as records."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import graph_uri, reading
from omnigraph_sql.cli.replacing import replacement
from omnigraph_sql.cli.streams import packed
from omnigraph_sql.cli.tabulating import count


def run(uri: str | None, store: str | None, *, types: tuple[str, ...], branch: str, out: str | None, as_json: bool) -> int:
    """Write the records to standard output, or to a file that is complete or not there at all."""
    with reading(graph_uri(uri, store)) as graph:
        records = graph.export(branch, types or None)
        if out is None:
            # Records are UTF-8 whatever the terminal speaks.
            _copy(records, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return 0
        with replacement(out) as file, packed(file, out) as stream:
            number = _copy(records, stream)
    if as_json:
        output.write_json({"uri": graph.uri, "branch": branch, "out": out, "records": number})
    else:
        output.write(f"exported {count(number, 'record')} to {out}\n")
    return 0


def _copy(records: Iterable[str], stream: IO[bytes]) -> int:
    number = 0
    for record in records:
        stream.write(record.encode() + b"\n")
        number += 1
    return number
