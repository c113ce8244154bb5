"""Columns as NumPy numbers that compare like their values.

For few values, Arrow is many times slower than NumPy. The number of a text is its rank among the distinct texts.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_sql.comparison import COMPARATORS

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Ranks:
    """A column without nulls."""

    numbers: npt.NDArray[Any]
    type: pa.DataType
    """The type of the column."""
    texts: list[str] | None = None
    """The sorted distinct values of a column of texts; its numbers are indices into them."""

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes, without the numbers, which are shared with the column."""
        return 0 if self.texts is None else sum(map(sys.getsizeof, self.texts))

    def place(self, text: str) -> float:
        """Return the number that compares with those of the column like `text` with its texts."""
        assert self.texts is not None
        rank = bisect_left(self.texts, text)  # by code points, which is the byte order of UTF-8
        return rank if rank < len(self.texts) and self.texts[rank] == text else rank - 0.5

    def holds(self, op: str, number: float, at: Positions | None = None) -> Mask:
        """Return a mask of the rows, or of the rows at positions, for which the comparison with a number holds."""
        mask: Mask = COMPARATORS[op].apply(self.numbers if at is None else self.numbers[at], number)
        return mask


def numeric_ranks(column: pa.Array) -> Ranks | None:
    """Return the numbers of a numeric column without nulls, else None."""
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return Ranks(column.to_numpy(), column.type) if is_number and not column.null_count else None


def text_ranks(coded: pa.DictionaryArray) -> Ranks | None:
    """Return the ranks of the texts of a column with a sorted dictionary; None if it has nulls."""
    if coded.null_count:
        return None
    return Ranks(coded.indices.to_numpy(), coded.dictionary.type, coded.dictionary.to_pylist())
