"""A task of a distributed load: it checks the values of its rows and adds files.

Nothing of it is visible or registered with the driver: an attempt records what it wrote, so that it can be removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql import ulid
from omnigraph_sql.errors import Conflict, OmnigraphError, VersionReclaimed
from omnigraph_sql.storage.columns import table_schema
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.table_parts import data_files, write_part
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.checks.findings import AT, raise_first
from omnigraph_sql.writes.checks.pending_graph import with_places
from omnigraph_sql.writes.checks.validation import value_findings
from omnigraph_sql.writes.distributed.parts import JoinedParts, LoadPart
from omnigraph_sql.writes.distributed.table import ABORTED, BEGUN, ORIGIN_STEP, SOURCE_COLUMN, DistributedTable, remove_files
from omnigraph_sql.writes.load.loads import leave_out
from omnigraph_sql.writes.load.rejects import Rejects
from omnigraph_sql.writes.load.upsert import merge_rows, pieces
from omnigraph_sql.writes.readers import PlacedTable, Reject, read_tables
from omnigraph_sql.writes.readers.model import RecordPlaces
from omnigraph_sql.writes.readers.tables import ROWS
from omnigraph_sql.writes.stage import needs_fork

FEW_ROWS: Final = 16_384
"""Rows of an upsert that a task does not join with the table itself."""


def write_rows(store: GraphStore, table: DistributedTable, batches: Iterable[pa.RecordBatch], number: int) -> LoadPart:
    """Check the values of rows and write them. What is written is noted under a name of its own, so attempts may repeat."""
    if store.catalog.schema_hash != table.schema_hash:
        text = "the schema of the graph has changed while the job was running"
        raise Conflict(text, reason="schema changed", hint="run the job again")
    attempt = _Attempt(store, table, number)
    part = attempt.write(batches)
    if _is_over(store, table):
        # The load is over, so the files of this task would never be removed.
        remove_files(store, [attempt.note(part)])
        raise Conflict(f"the load `{table.load_id}` is over", reason="aborted", hint="run the job again")
    store.objects.write_text(f"{table.directory}/attempt-{table.save_id}-{attempt.id}.json", json.dumps(attempt.note(part)))
    return part


def _is_over(store: GraphStore, table: DistributedTable) -> bool:
    """True if a load was given up, or published with what another attempt wrote."""
    return store.objects.exists(f"{table.directory}/{ABORTED}") or not store.objects.exists(f"{table.directory}/{BEGUN}")


class _Attempt:
    """One try at one part."""

    def __init__(self, store: GraphStore, table: DistributedTable, number: int) -> None:
        self.id = ulid.new()
        self._store = store
        self._table = table
        self._number = number
        snapshot = store.coordinator.at_version(table.branch, table.manifest_version)
        self._entry = entry = snapshot.entry(table.table_key)
        type_ = store.type_of(table.table_key)
        has_blobs = any(prop.type.is_blob for prop in type_.properties.values())
        # A branch's first write forks the table when it is published, and blobs have files of their own.
        self._waits = needs_fork(snapshot, entry) or has_blobs
        self._type = type_
        self._places: _Sources | _Origins = _Sources() if table.origins is None else _Origins(table.origins)
        self._rejects = Rejects(None, None) if table.collects else None
        self._rows = self._nbytes = 0
        self._sources: list[tuple[str, int]] = []
        self._failure: OmnigraphError | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> LoadPart:
        try:
            part = self._write(self._kept(self._normal(batches)))
        except OmnigraphError as error:
            # A consumer of the rows wraps an error that occurs while they are made.
            raise self._failure or error from None
        rejects = self._report()
        count = 0 if self._rejects is None else self._rejects.count
        return replace(
            part, rows=self._rows, nbytes=self._nbytes, sources=tuple(self._sources), rejects=rejects, rejected=count
        )

    def _kept(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except OmnigraphError as error:
            self._failure = error
            raise

    def _write(self, rows: Iterator[pa.RecordBatch]) -> LoadPart:
        if self._waits:
            return self._put_aside(rows)
        if self._table.mode == "merge":
            return self._merge(rows)
        kind = "overwrite" if self._table.mode == "overwrite" else "append"
        written = write_part(self._handle(), self._stored(rows), kind)
        return LoadPart(number=self._number, fragments=tuple(written))

    def _put_aside(self, rows: Iterable[pa.RecordBatch]) -> LoadPart:
        spool = f"{self._table.directory}/rows-{self.id}.arrow"
        self._store.storage.write_spool(spool, self._stored(rows))
        return LoadPart(number=self._number, spool=spool)

    def _merge(self, rows: Iterator[pa.RecordBatch]) -> LoadPart:
        """Join rows with those that they replace. A few are left to the one who publishes: he looks once for all tasks."""
        first: list[pa.RecordBatch] = []
        for batch in rows:
            first.append(batch)
            if sum(part.num_rows for part in first) > FEW_ROWS:
                break
        else:
            return self._put_aside(first)
        handle = self._handle()
        written: list[Any] = []
        changed: list[int] = []
        replaced: list[pa.Table] = []
        for piece in pieces(chain(first, rows)):
            met = merge_rows(self._store.storage, handle, self._entry.row_count, piece)
            for which in (met.changed, met.added):
                if which.num_rows:
                    fragments = write_part(handle, self._stored(which.to_batches()), "append")
                    changed += range(len(written), len(written) + len(fragments)) if which is met.changed else ()
                    written += fragments
            replaced.append(met.replaced)
        name = f"{self._table.directory}/replaced-{self.id}.arrow"
        self._store.storage.write_spool(name, pa.concat_tables(replaced).to_reader())
        return LoadPart(
            number=self._number, fragments=tuple(written), joined=JoinedParts(handle.version, tuple(changed), name)
        )

    def _handle(self) -> SnapshotHandle:
        """The table as it was when the job began. A cleanup may have removed that version meanwhile: then as it is now."""
        try:
            return self._store.storage.open(self._entry)
        except VersionReclaimed:
            return self._store.storage.open_head(self._entry.path, self._entry.branch)

    def _stored(self, rows: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
        """Rows in the order in which they are written, as the table has them."""
        schema = table_schema(self._type)

        def stripped() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                self._rows += batch.num_rows
                self._nbytes += batch.nbytes
                self._sources += self._places.runs(batch.column(AT))
                yield pa.RecordBatch.from_arrays(batch.columns[:-2], schema=schema)

        return pa.RecordBatchReader.from_batches(schema, stripped())

    def note(self, part: LoadPart) -> dict[str, Any]:
        """The files of an attempt, for their removal."""
        files = data_files(self._entry.path, self._entry.branch, part.fragments)
        others = (part.spool, part.rejects, None if part.joined is None else part.joined.replaced)
        return {"files": [*files, *(name for name in others if name is not None)]}

    def _normal(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows with their numbers, those with faulty values left out or raised."""
        key, places = self._table.table_key, self._places
        source: Any
        counted: RecordPlaces
        if isinstance(places, _Sources):
            source, counted = places.stripped(batches), ROWS
        else:
            source, counted = _placed(batches, is_text=self._table.is_text), self._table
            if source is None:
                return
        on_reject = None if self._rejects is None else self._reject
        for batch in read_tables({key: source}, self._store.catalog, on_reject=on_reject, places=counted):
            placed = with_places(batch.rows.schema)
            rows = pa.RecordBatch.from_arrays([*batch.rows.columns, batch.lines, batch.explicit_id], schema=placed)
            findings = value_findings(self._type, key, pa.Table.from_batches([rows]))
            if self._rejects is None:
                raise_first(findings, counted)
            else:
                rows = leave_out(rows, findings, self._rejects, counted, places.at)
            yield rows

    def _reject(self, reject: Reject) -> None:
        assert self._rejects is not None
        source = reject.source if reject.line is None else self._places.at(reject.line)
        self._rejects.add(replace(reject, source=source))

    def _report(self) -> str | None:
        if self._rejects is None or self._rejects.count == 0:
            return None
        name = f"{self._table.directory}/rejects-{self.id}.jsonl"
        lines = (json.dumps(entry, ensure_ascii=False) for entry in self._rejects.entries())
        self._store.objects.write_text(name, "\n".join(lines))
        return name


def _placed(batches: Iterable[pa.RecordBatch], *, is_text: bool) -> PlacedTable | None:
    """Rows that bring their numbers along; None if there are none, not even of no length."""
    rest = iter(batches)
    first = next(rest, None)
    if first is None:
        return None
    return PlacedTable(pa.RecordBatchReader.from_batches(first.schema, chain([first], rest)), is_text)


class _Origins:
    """Origins of rows whose numbers encode them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def at(self, number: int) -> str | None:
        """The origin of a row."""
        return self._names[number // ORIGIN_STEP]

    def runs(self, numbers: pa.Array) -> list[tuple[str, int]]:
        """The names for rows with these numbers, each with its number of rows."""
        places = numbers.to_numpy(zero_copy_only=False) // ORIGIN_STEP
        ends = np.flatnonzero(np.diff(places, append=-1))
        return [(self._names[places[end]], int(count)) for end, count in zip(ends, np.diff(ends, prepend=-1), strict=True)]


class _Sources:
    """The origins of the rows of a part, by their number."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._names: list[str] = []
        self._next = 1

    def stripped(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches without the column that names sources."""
        for batch in batches:
            if SOURCE_COLUMN in batch.schema.names:
                self._note(batch.column(SOURCE_COLUMN))
                names = [name for name in batch.schema.names if name != SOURCE_COLUMN]
                batch = batch.select(names)  # noqa: PLW2901
            self._next += batch.num_rows
            yield batch

    def _note(self, column: pa.Array) -> None:
        if len(column) == 0:
            return
        runs = pc.run_end_encode(column.fill_null(""))
        start = self._next
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            self._starts.append(start)
            self._names.append(name)
            start = self._next + end

    def at(self, number: int) -> str | None:
        """The origin of a row."""
        place = int(np.searchsorted(self._starts, number, side="right")) - 1
        return (self._names[place] or None) if place >= 0 else None

    def runs(self, numbers: pa.Array) -> list[tuple[str, int]]:
        """The names for rows with these numbers, each with its number of rows."""
        if not self._starts or len(numbers) == 0:
            return []
        places = np.searchsorted(self._starts, numbers.to_numpy(zero_copy_only=False), side="right") - 1
        ends = np.flatnonzero(np.diff(places, append=-1))
        counts = np.diff(ends, prepend=-1)
        return [(self._names[places[end]], int(count)) for end, count in zip(ends, counts, strict=True)]
