"""From string ids to positions: built once from the id column of a table, asked many times.

>>> ids = IdIndex.build(pa.array(["ada", "bob", "eve"]))
>>> ids.find(pa.array(["eve", "ada", "zoe", None])).tolist()
[2, 0, -1, -1]
>>> ids.position("bob"), ids.position("Bob")
(1, -1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_udfs import few
from omnigraph_udfs.arrays import Positions, frozen
from omnigraph_udfs.strings import Strings, one_piece
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["IdIndex"]

MOST = 2**32 - 1  # a slot has 32 bits for a position
ROWS_PER_THREAD = 1 << 18


@dataclass(frozen=True)
class IdIndex:
    """A hash table over an id column. Immutable; its arrays are all there is to it, so that it can be kept in a file.

    Attributes:
        ids: The ids in position order.
        slots: The table: a power of two, at least twice as many as there are ids.
    """

    ids: Strings
    slots: npt.NDArray[np.uint64]

    @classmethod
    def build(cls, column: pa.Array | pa.ChunkedArray) -> IdIndex:
        """The index of a column of ids.

        Raises:
            TypeError: The column holds no strings.
            ValueError: An id is null or occurs twice, or there are more than 2**32 - 1.
        """
        ids = Strings.of(column)
        slots = np.zeros(_slots(len(ids)), np.uint64)
        return cls._filled(ids, 0, slots)

    def extended(self, column: pa.Array | pa.ChunkedArray) -> IdIndex:
        """The index after more ids were appended; this one stays as it is.

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
        from omnigraph_udfs.kernels import hashing

        if len(ids) > MOST:
            raise ValueError(f"{len(ids)} ids: an index holds {MOST} at most")
        twice = hashing.insert(ids.offsets, ids.data, first, slots)
        if twice >= 0:
            raise ValueError(f"the id {ids.to_arrow()[twice].as_py()!r} occurs twice")
        return cls(ids, frozen(slots, np.uint64))

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, asked: pa.Array | pa.ChunkedArray) -> Positions:
        """The position of each id asked for; -1 for one that is not there, and for null.

        Raises:
            TypeError: The column holds no strings.
        """
        if pa.types.is_dictionary(asked.type):
            return self._encoded(asked)
        column = one_piece(asked)
        known = Strings.of(pc.fill_null(column, "") if column.null_count else column)
        out = self._positions(known)
        if column.null_count:
            out[column.is_null().to_numpy(zero_copy_only=False)] = -1
        return out

    def _positions(self, known: Strings) -> Positions:
        if len(known) <= few.FEW:
            asked = [known[row] for row in range(len(known))]
            return few.find(self.ids.offsets, self.ids.data, self.slots, asked)
        out = np.empty(len(known), np.int64)

        def look(share: tuple[int, int]) -> None:
            from omnigraph_udfs.kernels import hashing

            low, high = share
            hashing.find(
                self.ids.offsets, self.ids.data, self.slots, known.offsets[low : high + 1], known.data, out[low:high]
            )

        in_threads(look, shares(len(known), ROWS_PER_THREAD))
        return out

    def position(self, id_: str) -> int:
        """The position of one id, -1 if it is not there."""
        return int(few.find(self.ids.offsets, self.ids.data, self.slots, [id_.encode()])[0])

    def take(self, at: npt.ArrayLike) -> pa.LargeStringArray:
        """The ids at the positions; null where a position is negative."""
        places = np.asarray(at, np.int64)
        return self.ids.to_arrow().take(pa.array(places, mask=places < 0))

    def _encoded(self, asked: pa.DictionaryArray | pa.ChunkedArray) -> Positions:
        """Looks up each entry of a dictionary once."""
        chunks = asked.chunks if isinstance(asked, pa.ChunkedArray) else [asked]
        found = [np.empty(0, np.int64)]
        for chunk in chunks:
            places = np.append(self.find(chunk.dictionary), -1)
            codes = pc.fill_null(chunk.indices.cast(pa.int64()), len(places) - 1)
            found.append(places[codes.to_numpy(zero_copy_only=False)])
        return np.concatenate(found)


def _slots(count: int) -> int:
    return 1 << max(3, (2 * count - 1).bit_length())
