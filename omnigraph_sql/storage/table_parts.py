"""Parts of a table that different processes write before one of them commits the whole.

A part is fragments whose files are there and which no version names. They belong to the lineage they were written on: a
commit on another one would look for them in the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph_sql.storage.error_translation import translated_errors
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.table_names import table_name
from omnigraph_sql.storage.transactions import read_fragments

FILE_ROWS = 1 << 20
BATCH_ROWS = 1 << 16


def write_part(handle: SnapshotHandle, rows: pa.RecordBatchReader, mode: str) -> list[Any]:
    """Write rows as fragments of the lineage of a handle, and return these as JSON. No rows make no fragments."""
    with translated_errors(handle.path):
        written = write_fragments(rows, handle._dataset, mode=mode, max_rows_per_file=FILE_ROWS)
    return [fragment.to_json() for fragment in written if fragment.num_rows]


def fragments_of(entries: Iterable[Any]) -> list[FragmentMetadata]:
    """Fragments from their JSON."""
    return read_fragments(entries)


def data_files(path: str, branch: str | None, entries: Iterable[Any]) -> list[str]:
    """Return the names of the files of fragments, relative to the root of the graph."""
    return [f"{table_name(path, branch)}/data/{file['path']}" for entry in entries for file in entry["files"]]


def read_part(
    objects: ObjectStore, path: str, branch: str | None, entry: Any, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Read columns of a fragment that no version names."""
    for name in data_files(path, branch, [entry]):
        with translated_errors(name):
            reader = LanceFileReader(objects.uri(name), objects.root.storage_options, list(columns))
            yield from reader.read_all(batch_size=BATCH_ROWS).to_batches()
