"""`ogsql export`: a graph as records."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from typing import IO, Any

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import graph_uri, reading
from omnigraph_sql.cli.replacing import replacement
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
        with replacement(out) as file, _packed(file, out) as stream:
            number = _copy(records, stream)
    if as_json:
        output.write_json({"uri": graph.uri, "branch": branch, "out": out, "records": number})
    else:
        output.write(f"exported {count(number, 'record')} to {out}\n")
    return 0


def _packed(file: IO[bytes], path: str) -> Any:
    # Without a time and a name in it, the same graph gives the same bytes.
    return gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) if path.endswith(".gz") else nullcontext(file)


def _copy(records: Iterable[str], stream: IO[bytes]) -> int:
    number = 0
    for record in records:
        stream.write(record.encode() + b"\n")
        number += 1
    return number
