"""Arrow strings as two arrays, offsets and bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_udfs.arrays import Positions, frozen
from omnigraph_udfs.checks import require_offsets, require_type

__all__ = ["Strings"]


@dataclass(frozen=True)
class Strings:
    """Strings without nulls, in UTF-8.

    Attributes:
        offsets: The start of each string in `data`, with one more entry at the end.
        data: The bytes.
    """

    offsets: Positions
    data: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, column: pa.Array | pa.ChunkedArray) -> Strings:
        """Return the strings of a column of any string type; the bytes are not copied if the column is in one chunk.

        Raises:
            TypeError: The column holds no strings.
            ValueError: A string is null.
        """
        if column.null_count:
            raise ValueError(f"{column.null_count} of {len(column)} strings are null; none may be")
        array = one_piece(column)
        values, offsets, data = array.buffers()
        del values
        if len(array) == 0:
            return cls(frozen(np.zeros(1, np.int64), np.int64), frozen(np.empty(0, np.uint8), np.uint8))
        begins = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return cls(frozen(begins, np.int64), frozen(content, np.uint8))

    @classmethod
    def of_arrays(cls, offsets: npt.ArrayLike, data: npt.ArrayLike) -> Strings:
        """Make strings of arrays from a file, without copying.

        Raises:
            ValueError: The arrays are not strings.
        """
        begins, content = require_type(offsets, np.int64), require_type(data, np.uint8)
        require_offsets(begins, len(content))
        strings = cls(begins, content)
        try:
            strings.to_arrow().validate(full=True)
        except pa.ArrowInvalid as error:
            raise ValueError(f"the bytes are no strings: {error}") from None
        return strings

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, at: int) -> bytes:
        return self.data[self.offsets[at] : self.offsets[at + 1]].tobytes()

    def trimmed(self) -> Strings:
        """Return the same strings with offsets from 0 and without other bytes, copied only if necessary."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        return Strings(frozen(self.offsets - first if first else self.offsets, np.int64), self.data[first:last])

    def to_arrow(self) -> pa.LargeStringArray:
        """Return the strings as an Arrow array over the same bytes."""
        return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(self.offsets), pa.py_buffer(self.data))


def one_piece(column: pa.Array | pa.ChunkedArray) -> pa.LargeStringArray:
    """Convert a column of any string type to one array of large strings.

    Raises:
        TypeError: The column holds no strings.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise TypeError(f"strings are needed, not {column.type}")
    wide = column.cast(pa.large_string())
    if isinstance(wide, pa.ChunkedArray):
        return wide.combine_chunks() if wide.num_chunks != 1 else wide.chunk(0)
    return wide
