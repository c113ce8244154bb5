"""Parts of a distributed load: rows that other processes have written and that are not published yet."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.table_parts import read_part
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.transactions import check_files
from omnigraph_sql.store.json_fields import Fields, listed, optional, pair, text, whole
from omnigraph_sql.writes.checks.findings import AT
from omnigraph_sql.writes.checks.pending_graph import EXPLICIT, with_places
from omnigraph_sql.writes.load.spool import budget


@dataclass(frozen=True)
class JoinedParts:
    """The matches in the table that a task found for the rows of an upsert."""

    version: int
    """The version of the table."""
    changed: tuple[int, ...]
    """Which of its fragments hold rows that replace others; the rest are new."""
    replaced: str
    """The file with the row ids and addresses of those that are replaced, in the order of the rows that replace them."""

    @classmethod
    def from_dict(cls, entry: Any) -> JoinedParts:
        """The matches from their JSON."""
        fields = Fields(entry, "what a task found")
        return cls(fields.read("version", whole), fields.read("changed", listed(whole)), fields.read("replaced", text))


@dataclass(frozen=True, kw_only=True)
class LoadPart:
    """The output of one task: fragments on the lineage of the table, or rows that wait outside of it."""

    number: int
    """The place of the part among those of its table."""
    rows: int = 0
    nbytes: int = 0
    """The size of the rows in memory."""
    fragments: tuple[Any, ...] = ()
    spool: str | None = None
    sources: tuple[tuple[str, int], ...] = ()
    """The origins of the rows in runs: a name and a number of rows."""
    rejects: str | None = None
    """The file with the records that were left out."""
    rejected: int = 0
    joined: JoinedParts | None = None
    """Of an upsert whose rows are fragments."""

    @classmethod
    def from_dict(cls, entry: Any) -> LoadPart:
        """A part from its JSON; ValueError when it is none."""
        fields = Fields(entry, "a part")
        part = cls(
            number=fields.read("number", whole),
            rows=fields.read("rows", whole),
            nbytes=fields.read("nbytes", whole),
            fragments=fields.read("fragments", listed(_fragment)),
            spool=fields.read("spool", optional(text)),
            sources=fields.read("sources", listed(pair(text, whole))),
            rejects=fields.read("rejects", optional(text)),
            rejected=fields.read("rejected", whole),
            joined=fields.read("joined", optional(JoinedParts.from_dict)),
        )
        if part.joined is not None and any(place >= len(part.fragments) for place in part.joined.changed):
            raise ValueError("a part names a fragment that it does not have")
        return part


def _fragment(value: Any) -> Any:
    """The JSON of a fragment, whose files are its own."""
    check_files(value)
    return value


class PartRows:
    """The rows of all parts of a table, numbered from 1 in their order."""

    def __init__(
        self,
        storage: TableStorage,
        lineage: tuple[str, str | None],
        schema: pa.Schema,
        parts: Sequence[LoadPart],
        *,
        explicit: bool,
    ) -> None:
        self.schema = with_places(schema)
        self._storage = storage
        self._path, self._branch = lineage
        self.parts = parts
        self._explicit = explicit
        self.num_rows = sum(part.rows for part in parts)
        self.nbytes = sum(part.nbytes for part in parts)
        runs = [run for part in parts for run in part.sources]
        self._sources = [name for name, _ in runs]
        self._ends = np.cumsum([rows for _, rows in runs], dtype=np.int64).tolist()

    @property
    def is_spilled(self) -> bool:
        """True if they are too many to be held in memory together."""
        return self.nbytes > budget()

    @property
    def fragments(self) -> list[Any]:
        """The fragments of all parts."""
        return [entry for part in self.parts for entry in part.fragments]

    def is_on(self, handle: SnapshotHandle) -> bool:
        """True if a commit on the lineage of a handle finds the files of all rows."""
        is_same = (handle.path, handle.branch) == (self._path, self._branch)
        return is_same and all(part.spool is None for part in self.parts)

    def is_met(self, handle: SnapshotHandle) -> bool:
        """True if tasks have joined rows with this version of the table; those that wait are few."""
        is_same = (handle.path, handle.branch) == (self._path, self._branch)
        met = [part.joined.version == handle.version for part in self.parts if part.joined is not None]
        return is_same and bool(met) and all(met) and all(part.joined or part.spool for part in self.parts)

    def source_of(self, place: int) -> str | None:
        """The origin of the row at a place."""
        return self._sources[bisect.bisect_left(self._ends, place)] if self._ends else None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, or some columns of them."""
        names = self.schema.names if columns is None else list(columns)
        stored = [name for name in names if name not in (AT, EXPLICIT)]
        schema = pa.schema([self.schema.field(name) for name in names])
        start = 1
        for part in self.parts:
            # A batch without columns has no number of rows.
            for batch in self._stored(part, stored or ["id"]):
                added = {
                    AT: pa.array(np.arange(start, start + batch.num_rows)),
                    EXPLICIT: pa.repeat(pa.scalar(self._explicit), batch.num_rows),
                }
                start += batch.num_rows
                arrays = [added[name] if name in added else batch.column(name) for name in names]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def waiting(self) -> Iterator[pa.RecordBatch]:
        """The rows that are not fragments yet, without their numbers."""
        names = self.schema.names[:-2]
        return (batch for part in self.parts if part.spool is not None for batch in self._stored(part, names))

    def _stored(self, part: LoadPart, columns: list[str]) -> Iterator[pa.RecordBatch]:
        if part.spool is not None:
            for batch in self._storage.read_spool(part.spool):
                yield batch.select(columns)
        for entry in part.fragments:
            yield from read_part(self._storage.objects, self._path, self._branch, entry, columns)
