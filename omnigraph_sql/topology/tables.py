"""One version of a table: columns and ids by position, read whole or row by row, whichever costs less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.manifest.snapshot import Entry
from omnigraph_sql.storage.filters import member_filter
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.topology.ids import make_ids, stored_ids
from omnigraph_sql.topology.kept import Kept
from omnigraph_sql.topology.modes import FEW, REQUEST, SCATTERED, Meter, Settings
from omnigraph_sql.topology.ranks import Ranks, numeric_ranks, text_ranks
from omnigraph_sql.topology.shelf import Shelf, TableVersion, nbytes, version_of
from omnigraph_udfs.ids import IdIndex
from omnigraph_udfs.numbering import is_run

Positions = npt.NDArray[np.int64]

_SCATTERED = 256
"""So few values are gathered one by one: to see whether they are neighbours takes as long."""
INDEX_FACTOR = 3
"""What building an id index costs for each id, compared with reading it once."""


class TableData:
    """One version of a table, its rows numbered in table order. Safe to use from several threads."""

    def __init__(self, storage: TableStorage, entry: Entry, shelf: Shelf) -> None:
        self.entry = entry
        self.size = entry.row_count
        self.shelf = shelf
        self._storage = storage
        self._kept = Kept()
        self._meters: defaultdict[str, Meter] = defaultdict(Meter)
        self._types: dict[str, pa.DataType] = {}

    @property
    def version(self) -> TableVersion:
        """What tells this version from every other."""
        return version_of(self.entry)

    @property
    def handle(self) -> SnapshotHandle:
        """The opened version."""
        entry = self.entry
        return self._storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)

    @property
    def nbytes(self) -> int:
        """What is in memory."""
        return sum(
            nbytes(each[0]) if isinstance(each, tuple) else getattr(each, "nbytes", 0) for each in self._kept.values()
        )

    def layout(self) -> list[str]:
        """What its fragments hold."""
        found: list[str] = self._kept.get("layout", lambda: self._storage.layout(self.handle))
        return found

    def is_covered(self, column: str) -> bool:
        """Whether an index on the column knows all rows; if that cannot be found out, none does."""

        def probe() -> str:
            try:
                return "yes" if self._storage.index_coverage(self.handle, column) else "no"
            except (OSError, ValueError):
                return "no"

        return bool(self._kept.get(f"index of {column}", probe) == "yes")

    def scan(
        self, columns: list[str], filter: pc.Expression | str | None = None, first_row: int = 0
    ) -> pa.RecordBatchReader:
        """Rows as they are stored; `_rowoffset` is their position."""
        return self._storage.scan(self.handle, columns, filter, batch_rows=1 << 19, first_row=first_row or None)

    # Columns

    def type_of(self, name: str) -> pa.DataType:
        """The Arrow type of a column, without reading it."""
        found = self._types.get(name)
        if found is None:
            kind = self._kept.get("schema", lambda: self._storage.schema(self.handle)).field(name).type
            found = self._types[name] = pa.large_binary() if isinstance(kind, pa.BaseExtensionType) else kind
        return found

    def column(self, name: str) -> pa.Array:
        """A whole column; its strings and lists have long offsets if they are too large for short ones."""
        return self._kept.get(f"column {name}", lambda: _one(self.scan([name]).read_all().column(0)))

    def comparable(self, name: str) -> pa.Array:
        """A column of floats, or of lists of them, with one zero only."""
        return self._kept.get(f"comparable {name}", lambda: one_zero(self.column(name)))

    def has_column(self, name: str) -> bool:
        """Whether a column is in memory, or mapped."""
        return self._kept.peek(f"column {name}") is not None or (name == "id" and self.known_ids() is not None)

    def coded(self, name: str) -> pa.DictionaryArray:
        """A column of texts as numbers: those of the texts among all that are different, in their order."""
        return self._kept.get(f"coded {name}", lambda: _coded(self.column(name)))

    def ranks(self, name: str, *, few_values: bool) -> Ranks | None:
        """A column as numbers that compare like its values, if it is in memory and they are made in no time.

        So are those of texts that the caller knows to be of a few values, or that are not many.
        """
        found = self._kept.peek(f"ranks {name}")
        if found is None and self._kept.peek(f"column {name}") is not None:
            found = self._kept.get(f"ranks {name}", lambda: self._ranks(name, few_values) or "none")
        return found if isinstance(found, Ranks) else None

    def _ranks(self, name: str, few_values: bool) -> Ranks | None:
        column = self.column(name)
        if not pa.types.is_string(column.type):
            return numeric_ranks(column)
        return text_ranks(self.coded(name)) if few_values or self.size <= REQUEST else None

    def gather(self, name: str, given: Settings, *, comparable: bool) -> Callable[[pa.Array], pa.Array]:
        """From positions to the values of a column, which is read as a whole only if that pays."""
        kind = self.type_of(name)

        def run(at: pa.Array) -> pa.Array:
            if self._asks_for_rows(name, len(at), given):
                found = self._taken(name, at)
                found = one_zero(found) if comparable else found
            else:
                found = _gathered(self.comparable(name) if comparable else self._whole(name), at)
            return found if found.type == kind else found.cast(kind)

        return run

    def _whole(self, name: str) -> pa.Array:
        ids = self.known_ids() if name == "id" else None
        return self.column(name) if ids is None else ids.ids.to_arrow()

    def _asks_for_rows(self, name: str, count: int, given: Settings) -> bool:
        if self.has_column(name):
            return False
        if given.mode is not None:
            return given.mode == "indexed"
        cost = REQUEST + SCATTERED * count
        return self._is_few(count) and self._meters[name].affords(cost, self.size)

    def _is_few(self, count: int) -> bool:
        return count <= FEW and count * 16 < self.size

    def _taken(self, name: str, at: pa.Array) -> pa.Array:
        """The values at some positions, each row read once."""
        known = at.drop_null() if at.null_count else at
        rows, back = np.unique(known.to_numpy(zero_copy_only=False), return_inverse=True)
        if len(rows) == 0:
            return pa.nulls(len(at), self.type_of(name))
        found = _one(self._storage.take(self.handle, name, rows))
        if not at.null_count:
            return found.take(pa.array(back))
        places = np.full(len(at), -1)
        places[at.is_valid().to_numpy(zero_copy_only=False)] = back
        return found.take(pa.array(places, mask=places < 0))

    def asks_index(self, name: str, kind: pa.DataType, given: Settings) -> bool:
        """Whether the rows with a value are better asked for than looked for in the whole column."""
        if self._kept.peek(f"column {name}") is not None or kind != self.type_of(name) or pa.types.is_floating(kind):
            return False
        if given.mode is not None:
            return given.mode == "indexed" and self.is_covered(name)
        return self.is_covered(name) and self._meters[name].affords(REQUEST, self.size)

    def equal_to(self, name: str, value: pa.Scalar) -> Positions:
        """The positions of the rows with a value, by a scan that an index on the column serves."""
        batches = self.scan(["_rowoffset"], member_filter(name, pa.array([value.as_py()], value.type)))
        found = [batch.column(0).to_numpy().astype(np.int64) for batch in batches]
        return np.sort(np.concatenate([np.empty(0, np.int64), *found]))

    # Ids

    def known_ids(self) -> IdIndex | None:
        """The id index if it is in memory or in a file."""
        if self._kept.peek("ids") is None and self._kept.peek("no ids") is None:
            found = stored_ids(self.shelf, self.version)
            self._kept.get("no ids" if found is None else "ids", lambda: found or "none")
        pair = self._kept.peek("ids")
        return None if pair is None else pair[1]

    @property
    def ids(self) -> IdIndex:
        """From id to position."""
        known = self.known_ids()
        if known is not None:
            return known
        _, index = self._kept.get("ids", lambda: make_ids(self.shelf, self._storage, self.handle, self.version))
        found: IdIndex = index
        return found

    def find(self, asked: pa.Array, given: Settings) -> Positions:
        """The positions of ids, -1 for one that is not there. The index of all ids is made only if that pays."""
        if not self._asks_for_ids(len(asked), given):
            return self.ids.find(asked)
        wanted = asked.unique().drop_null().cast(pa.string())
        places = np.full(len(wanted) + 1, -1, np.int64)
        for start in range(0, len(wanted), FEW):
            for batch in self.scan(["id", "_rowoffset"], member_filter("id", wanted.slice(start, FEW))):
                at = pc.index_in(batch.column("id"), value_set=wanted).to_numpy()
                places[at] = batch.column("_rowoffset").to_numpy()
        rows: Positions = pc.fill_null(pc.index_in(asked.cast(pa.string()), value_set=wanted), -1).to_numpy()
        return places[rows]

    def position(self, id_: str, given: Settings) -> int:
        """The position of one id, -1 if it is not there."""
        known = self.known_ids()
        return int(self.find(pa.array([id_], pa.string()), given)[0]) if known is None else known.position(id_)

    def _asks_for_ids(self, count: int, given: Settings) -> bool:
        if self.known_ids() is not None or count == 0:
            return False
        if given.mode is not None:
            return given.mode == "indexed"
        cost = REQUEST + SCATTERED * count if self.is_covered("id") else self.size + REQUEST
        return self._is_few(count) and self._meters["find"].affords(cost, INDEX_FACTOR * self.size)

    def order(self, given: Settings) -> tuple[pa.DataType, Callable[[pa.Array], pa.Array]]:
        """From positions to what sorts like their ids: their places in the order of all, or the ids themselves.

        The places take a sort of the whole table, so they are made only once that pays.
        """
        rank = self._kept.peek("rank")
        if rank is None and (given.mode == "csr" or (given.mode is None and not self._sorts_by_id())):
            rank = self._kept.get("rank", self._rank)
        if rank is not None:
            return pa.int64(), rank.take
        gather = self.gather("id", given, comparable=False)

        def run(at: pa.Array) -> pa.Array:
            self._meters["order"].spent += SCATTERED * len(at)
            return gather(at)

        return self.type_of("id"), run

    def _sorts_by_id(self) -> bool:
        return self._meters["order"].affords(REQUEST, self.size)

    def _rank(self) -> pa.Array:
        order = pc.sort_indices(self.ids.ids.to_arrow()).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return pa.array(rank)


def _gathered(column: pa.Array, at: pa.Array) -> pa.Array:
    """The values at positions; a scan asks for one after the other, which are there already."""
    if len(at) > _SCATTERED and not at.null_count:
        places = at.to_numpy()
        if is_run(places):
            return column.slice(int(places[0]), len(at))
    return column.take(at)


def _coded(column: pa.Array) -> pa.DictionaryArray:
    found = column.dictionary_encode()
    order = pc.sort_indices(found.dictionary)
    places = np.empty(len(order), np.int32)
    places[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(places).take(found.indices), found.dictionary.take(order))


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    wide = _wide(column.type) if column.nbytes >= 1 << 31 else column.type
    found: Any = (column if wide == column.type else column.cast(wide)).combine_chunks()
    return found if not isinstance(found, pa.ChunkedArray) else pa.concat_arrays(found.chunks)


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type with offsets of 64 bits."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_field.with_type(_wide(kind.value_type)))
    return kind


def one_zero(column: pa.Array) -> pa.Array:
    """Floats, or lists of them, with one zero only; any other column as it is."""
    if pa.types.is_floating(column.type):
        return pc.add(column, pa.scalar(0.0, column.type))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        values = pc.add(column.values, pa.scalar(0.0, column.type.value_type))
        mask = column.is_null() if column.null_count else None
        return type(column).from_arrays(column.offsets, values, type=column.type, mask=mask)
    return column
