"""One version of a table: columns and ids by position, read as a whole or by row, whichever is cheaper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.caches import OnceMap
from omnigraph_sql.manifest.snapshot import Entry
from omnigraph_sql.storage.filters import member_filter
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.topology.cost_model import FEW, REQUEST, SCATTERED, Meter, TraversalSettings
from omnigraph_sql.topology.derived_store import DerivedStore, TableVersion, nbytes, version_of
from omnigraph_sql.topology.id_index import build_ids, stored_ids
from omnigraph_sql.topology.ranks import Ranks, numeric_ranks, text_ranks
from omnigraph_udfs.dictionary_codes import is_run
from omnigraph_udfs.ids import IdIndex

Positions = npt.NDArray[np.int64]

_SCATTERED = 256
"""Up to this number of values a gather is as fast as testing for consecutive positions."""
INDEX_FACTOR = 3
"""The cost of building an id index per id, relative to reading the id once."""


class TableData:
    """One version of a table, with rows numbered in table order. Thread-safe."""

    def __init__(self, storage: TableStorage, entry: Entry, derived: DerivedStore) -> None:
        self.entry = entry
        self.size = entry.row_count
        self.derived = derived
        self._storage = storage
        self._memo = OnceMap()
        self._meters: defaultdict[str, Meter] = defaultdict(Meter)
        self._types: dict[str, pa.DataType] = {}

    @property
    def version(self) -> TableVersion:
        """The identity of this version."""
        return version_of(self.entry)

    @property
    def handle(self) -> SnapshotHandle:
        """The opened version."""
        return self._storage.open(self.entry)

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return sum(
            nbytes(value[0]) if isinstance(value, tuple) else getattr(value, "nbytes", 0) for value in self._memo.values()
        )

    def layout(self) -> list[str]:
        """Return the layout of the fragments."""
        layout: list[str] = self._memo.get("layout", lambda: self._storage.layout(self.handle))
        return layout

    def is_covered(self, column: str) -> bool:
        """Return True if an index on the column covers all rows; False if that cannot be determined."""

        def probe() -> str:
            try:
                return "yes" if self._storage.index_coverage(self.handle, column) else "no"
            except (OSError, ValueError):
                return "no"

        return bool(self._memo.get(f"index of {column}", probe) == "yes")

    def scan(
        self, columns: list[str], filter: pc.Expression | str | None = None, first_row: int = 0
    ) -> pa.RecordBatchReader:
        """Scan rows as stored; `_rowoffset` is their position."""
        return self._storage.scan(self.handle, columns, filter, batch_rows=1 << 19, first_row=first_row or None)

    # Columns

    def type_of(self, name: str) -> pa.DataType:
        """Return the Arrow type of a column, without reading it."""
        kind = self._types.get(name)
        if kind is None:
            stored = self._memo.get("schema", lambda: self._storage.schema(self.handle)).field(name).type
            kind = self._types[name] = pa.large_binary() if isinstance(stored, pa.BaseExtensionType) else stored
        return kind

    def column(self, name: str) -> pa.Array:
        """Return a whole column; strings and lists that exceed 32-bit offsets have 64-bit ones."""
        return self._memo.get(f"column {name}", lambda: _combined(self.scan([name]).read_all().column(0)))

    def comparable(self, name: str) -> pa.Array:
        """Return a column with negative zeros replaced by positive ones."""
        return self._memo.get(f"comparable {name}", lambda: one_zero(self.column(name)))

    def has_column(self, name: str) -> bool:
        """Return True if a column is in memory or mapped."""
        return self._memo.peek(f"column {name}") is not None or (name == "id" and self.cached_ids() is not None)

    def coded(self, name: str) -> pa.DictionaryArray:
        """Return a column of texts, dictionary-encoded with a sorted dictionary."""
        return self._memo.get(f"coded {name}", lambda: _coded(self.column(name)))

    def ranks(self, name: str, *, few_values: bool) -> Ranks | None:
        """Return a column as numbers that compare like its values, if it is in memory and the conversion is cheap.

        The conversion of texts is cheap for few rows, or for columns with few distinct values (`few_values`).
        """
        ranks = self._memo.peek(f"ranks {name}")
        if ranks is None and self._memo.peek(f"column {name}") is not None:
            ranks = self._memo.get(f"ranks {name}", lambda: self._ranks(name, few_values) or "none")
        return ranks if isinstance(ranks, Ranks) else None

    def _ranks(self, name: str, few_values: bool) -> Ranks | None:
        column = self.column(name)
        if not pa.types.is_string(column.type):
            return numeric_ranks(column)
        return text_ranks(self.coded(name)) if few_values or self.size <= REQUEST else None

    def gather(self, name: str, settings: TraversalSettings, *, comparable: bool) -> Callable[[pa.Array], pa.Array]:
        """Return a function from positions to values of a column, which is read as a whole only if that is cheaper."""
        kind = self.type_of(name)

        def run(at: pa.Array) -> pa.Array:
            if self._reads_rows(name, len(at), settings):
                values = self._taken(name, at)
                values = one_zero(values) if comparable else values
            else:
                values = _gathered(self.comparable(name) if comparable else self._whole(name), at)
            return values if values.type == kind else values.cast(kind)

        return run

    def _whole(self, name: str) -> pa.Array:
        ids = self.cached_ids() if name == "id" else None
        return self.column(name) if ids is None else ids.ids.to_arrow()

    def _reads_rows(self, name: str, count: int, settings: TraversalSettings) -> bool:
        if self.has_column(name):
            return False
        if settings.mode is not None:
            return settings.mode == "indexed"
        cost = REQUEST + SCATTERED * count
        return self._is_few(count) and self._meters[name].try_spend(cost, self.size)

    def _is_few(self, count: int) -> bool:
        return count <= FEW and count * 16 < self.size

    def _taken(self, name: str, at: pa.Array) -> pa.Array:
        """Read the values at positions, each row once."""
        valid = at.drop_null() if at.null_count else at
        rows, back = np.unique(valid.to_numpy(zero_copy_only=False), return_inverse=True)
        if len(rows) == 0:
            return pa.nulls(len(at), self.type_of(name))
        values = _combined(self._storage.take(self.handle, name, rows))
        if not at.null_count:
            return values.take(pa.array(back))
        places = np.full(len(at), -1)
        places[at.is_valid().to_numpy(zero_copy_only=False)] = back
        return values.take(pa.array(places, mask=places < 0))

    def asks_index(self, name: str, kind: pa.DataType, settings: TraversalSettings) -> bool:
        """Return True if an index look-up of the rows with a value is cheaper than reading the whole column."""
        if self._memo.peek(f"column {name}") is not None or kind != self.type_of(name) or pa.types.is_floating(kind):
            return False
        if settings.mode is not None:
            return settings.mode == "indexed" and self.is_covered(name)
        return self.is_covered(name) and self._meters[name].try_spend(REQUEST, self.size)

    def equal_to(self, name: str, value: pa.Scalar) -> Positions:
        """Return the positions of the rows with a value, by a scan that uses the index on the column."""
        batches = self.scan(["_rowoffset"], member_filter(name, pa.array([value.as_py()], value.type)))
        rows = [batch.column(0).to_numpy().astype(np.int64) for batch in batches]
        return np.sort(np.concatenate([np.empty(0, np.int64), *rows]))

    # Ids

    def cached_ids(self) -> IdIndex | None:
        """Return the id index if it is in memory or in a file, else None."""
        if self._memo.peek("ids") is None and self._memo.peek("no ids") is None:
            stored = stored_ids(self.derived, self.version)
            self._memo.get("no ids" if stored is None else "ids", lambda: stored or "none")
        pair = self._memo.peek("ids")
        return None if pair is None else pair[1]

    @property
    def ids(self) -> IdIndex:
        """The index from id to position, loaded or built on first use."""
        cached = self.cached_ids()
        if cached is not None:
            return cached
        _, index = self._memo.get("ids", lambda: build_ids(self.derived, self._storage, self.handle, self.version))
        built: IdIndex = index
        return built

    def find(self, ids: pa.Array, settings: TraversalSettings) -> Positions:
        """Return the positions of ids, -1 for missing ones. The index of all ids is built only if that is cheaper."""
        if not self._reads_ids(len(ids), settings):
            return self.ids.find(ids)
        wanted = ids.unique().drop_null().cast(pa.string())
        places = np.full(len(wanted) + 1, -1, np.int64)
        for start in range(0, len(wanted), FEW):
            for batch in self.scan(["id", "_rowoffset"], member_filter("id", wanted.slice(start, FEW))):
                at = pc.index_in(batch.column("id"), value_set=wanted).to_numpy()
                places[at] = batch.column("_rowoffset").to_numpy()
        rows: Positions = pc.fill_null(pc.index_in(ids.cast(pa.string()), value_set=wanted), -1).to_numpy()
        return places[rows]

    def position(self, id_: str, settings: TraversalSettings) -> int:
        """Return the position of one id, -1 if it is missing."""
        cached = self.cached_ids()
        return int(self.find(pa.array([id_], pa.string()), settings)[0]) if cached is None else cached.position(id_)

    def _reads_ids(self, count: int, settings: TraversalSettings) -> bool:
        if self.cached_ids() is not None or count == 0:
            return False
        if settings.mode is not None:
            return settings.mode == "indexed"
        cost = REQUEST + SCATTERED * count if self.is_covered("id") else self.size + REQUEST
        return self._is_few(count) and self._meters["find"].try_spend(cost, INDEX_FACTOR * self.size)

    def order(self, settings: TraversalSettings) -> tuple[pa.DataType, Callable[[pa.Array], pa.Array]]:
        """Return a function from positions to keys that sort like their ids, and the type of the keys.

        The keys are the ids, or their ranks among all ids. Ranks need a sort of the whole table, so they are computed only
        when that is cheaper.
        """
        rank = self._memo.peek("rank")
        if rank is None and (settings.mode == "csr" or (settings.mode is None and not self._sorts_by_id())):
            rank = self._memo.get("rank", self._rank)
        if rank is not None:
            return pa.int64(), rank.take
        gather = self.gather("id", settings, comparable=False)

        def run(at: pa.Array) -> pa.Array:
            self._meters["order"].spent += SCATTERED * len(at)
            return gather(at)

        return self.type_of("id"), run

    def _sorts_by_id(self) -> bool:
        return self._meters["order"].try_spend(REQUEST, self.size)

    def _rank(self) -> pa.Array:
        order = pc.sort_indices(self.ids.ids.to_arrow()).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return pa.array(rank)


def _gathered(column: pa.Array, at: pa.Array) -> pa.Array:
    """Return the values at positions; consecutive positions, as in a scan, are a slice."""
    if len(at) > _SCATTERED and not at.null_count:
        places = at.to_numpy()
        if is_run(places):
            return column.slice(int(places[0]), len(at))
    return column.take(at)


def _coded(column: pa.Array) -> pa.DictionaryArray:
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    places = np.empty(len(order), np.int32)
    places[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(places).take(encoded.indices), encoded.dictionary.take(order))


def _combined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    wide = _wide(column.type) if column.nbytes >= 1 << 31 else column.type
    combined: Any = (column if wide == column.type else column.cast(wide)).combine_chunks()
    return combined if not isinstance(combined, pa.ChunkedArray) else pa.concat_arrays(combined.chunks)


def _wide(kind: pa.DataType) -> pa.DataType:
    """Return the type with 64-bit offsets."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_field.with_type(_wide(kind.value_type)))
    return kind


def one_zero(column: pa.Array) -> pa.Array:
    """Replace negative zeros of floats, or of lists of floats, by positive ones; return other columns unchanged."""
    if pa.types.is_floating(column.type):
        return pc.add(column, pa.scalar(0.0, column.type))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        values = pc.add(column.values, pa.scalar(0.0, column.type.value_type))
        mask = column.is_null() if column.null_count else None
        return type(column).from_arrays(column.offsets, values, type=column.type, mask=mask)
    return column
