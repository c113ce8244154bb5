"""Index from string ids to positions, built from the id column of a table.

>>> ids = IdIndex.build(pa.array(["ada", "bob", "eve"]))
>>> ids.find(pa.array(["eve", "ada", "zoe", None])).tolist()
[2, 0, -1, -1]
>>> ids.position("bob"), ids.position("Bob")
(1, -1)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_udfs import numpy_fallback
from omnigraph_udfs.arrays import Positions, frozen
from omnigraph_udfs.checks import require_type
from omnigraph_udfs.strings import Strings, one_piece
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["IdIndex"]

MOST = 2**32 - 1  # a slot has 32 bits for a position
ROWS_PER_THREAD = 1 << 18


@dataclass(frozen=True)
class IdIndex:
    """A hash table over an id column. Immutable and made of arrays only, so that it can be stored in a file.

    Attributes:
        ids: The ids in position order.
        slots: The slots of the hash table. Their number is a power of two, at least twice the number of ids.
    """

    ids: Strings
    slots: npt.NDArray[np.uint64]

    @classmethod
    def build(cls, column: pa.Array | pa.ChunkedArray) -> IdIndex:
        """Build the index of a column of ids.

        Raises:
            TypeError: The column holds no strings.
            ValueError: An id is null or occurs twice, or there are more than 2**32 - 1.
        """
        ids = Strings.of(column)
        slots = np.zeros(_slots(len(ids)), np.uint64)
        return cls._filled(ids, 0, slots)

    @classmethod
    def of_arrays(cls, offsets: npt.ArrayLike, data: npt.ArrayLike, slots: npt.ArrayLike) -> IdIndex:
        """Make an index of arrays from a file, without copying. Searches in it stay within bounds and terminate.

        Raises:
            ValueError: The arrays are not an index.
        """
        ids = Strings.of_arrays(offsets, data)
        table = require_type(slots, np.uint64)
        if len(table) < _slots(len(ids)) or len(table) & (len(table) - 1):
            raise ValueError(f"{len(table)} slots for {len(ids)} ids")
        places = table.view(np.uint32)[0 if sys.byteorder == "little" else 1 :: 2]
        if int(np.count_nonzero(table)) != len(ids) or int(places.max(initial=0)) > len(ids):
            raise ValueError("the slots do not lead to the ids")
        return cls(ids, table)

    def extended(self, column: pa.Array | pa.ChunkedArray) -> IdIndex:
        """Return a new index with more ids appended.

        Raises:
            TypeError: The column holds no strings.
            ValueError: As `build`.
        """
        new = Strings.of(column)
        ids = Strings.of(pa.concat_arrays([self.ids.to_arrow(), new.to_arrow()]))
        if len(self.slots) < _slots(len(ids)):
            return self._filled(ids, 0, np.zeros(_slots(len(ids)), np.uint64))
        return self._filled(ids, len(self.ids), self.slots.copy())

    @classmethod
    def _filled(cls, ids: Strings, first: int, slots: npt.NDArray[np.uint64]) -> IdIndex:
        if len(ids) > MOST:
            raise ValueError(f"{len(ids)} ids: an index holds {MOST} at most")
        duplicate = _insert(ids, first, slots)
        if duplicate >= 0:
            raise ValueError(f"the id {ids.to_arrow()[duplicate].as_py()!r} occurs twice")
        return cls(ids, frozen(slots, np.uint64))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return int(self.slots.nbytes + self.ids.offsets.nbytes + self.ids.data.nbytes)

    def find(self, ids: pa.Array | pa.ChunkedArray) -> Positions:
        """Return the position of each id, -1 for null and for ids that are not in the index.

        Raises:
            TypeError: The column holds no strings.
        """
        if pa.types.is_dictionary(ids.type):
            return self._encoded(ids)
        column = one_piece(ids)
        strings = Strings.of(pc.fill_null(column, "") if column.null_count else column)
        out = self._positions(strings)
        if column.null_count:
            out[column.is_null().to_numpy(zero_copy_only=False)] = -1
        return out

    def _positions(self, wanted: Strings) -> Positions:
        if len(wanted) <= numpy_fallback.FEW:
            texts = [wanted[row] for row in range(len(wanted))]
            return numpy_fallback.find(self.ids.offsets, self.ids.data, self.slots, texts)
        out = np.empty(len(wanted), np.int64)

        def look(share: tuple[int, int]) -> None:
            from omnigraph_udfs.kernels import hashing

            low, high = share
            hashing.find(
                self.ids.offsets, self.ids.data, self.slots, wanted.offsets[low : high + 1], wanted.data, out[low:high]
            )

        in_threads(look, shares(len(wanted), ROWS_PER_THREAD))
        return out

    def position(self, id_: str) -> int:
        """Return the position of one id, -1 if it is not in the index."""
        return int(numpy_fallback.find(self.ids.offsets, self.ids.data, self.slots, [id_.encode()])[0])

    def take(self, at: npt.ArrayLike) -> pa.LargeStringArray:
        """Return the ids at the positions, null for negative positions."""
        places = np.asarray(at, np.int64)
        return self.ids.to_arrow().take(pa.array(places, mask=places < 0))

    def _encoded(self, ids: pa.DictionaryArray | pa.ChunkedArray) -> Positions:
        """Look up each entry of a dictionary once."""
        chunks = ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]
        parts = [np.empty(0, np.int64)]
        for chunk in chunks:
            places = np.append(self.find(chunk.dictionary), -1)
            codes = pc.fill_null(chunk.indices.cast(pa.int64()), len(places) - 1)
            parts.append(places[codes.to_numpy(zero_copy_only=False)])
        return np.concatenate(parts)


def _insert(ids: Strings, first: int, slots: npt.NDArray[np.uint64]) -> int:
    if numpy_fallback.is_enough(len(ids) - first):
        return numpy_fallback.insert(ids.offsets, ids.data, first, slots)
    from omnigraph_udfs.kernels import hashing

    return hashing.insert(ids.offsets, ids.data, first, slots)


def _slots(count: int) -> int:
    return 1 << max(3, (2 * count - 1).bit_length())
