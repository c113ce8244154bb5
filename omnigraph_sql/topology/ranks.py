"""Columns as numbers that compare like their values.

To look at a few values Arrow takes many times as long as NumPy does, whatever it is asked. Texts have their place among all
that are different.
"""

from __future__ import annotations

import operator
import sys
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Ranks:
    """A column without nulls."""

    numbers: npt.NDArray[Any]
    type: pa.DataType
    """Of the column."""
    texts: list[str] | None = None
    """The different values of a column of texts, in their order: its numbers are places among them."""

    @property
    def nbytes(self) -> int:
        """What it takes beside the column, whose numbers it shares."""
        return 0 if self.texts is None else sum(map(sys.getsizeof, self.texts))

    def place(self, text: str) -> float:
        """The number that compares with those of the column as a text does with its texts."""
        assert self.texts is not None
        found = bisect_left(self.texts, text)  # by code points, which is the order of the bytes in UTF-8
        return found if found < len(self.texts) and self.texts[found] == text else found - 0.5

    def holds(self, op: str, number: float, at: Positions | None = None) -> Mask:
        """For each row, or each of some, whether it compares with a number as it should."""
        found: Mask = _COMPARE[op](self.numbers if at is None else self.numbers[at], number)
        return found


def numeric_ranks(column: pa.Array) -> Ranks | None:
    """The numbers of a column that holds nothing else."""
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return Ranks(column.to_numpy(), column.type) if is_number and not column.null_count else None


def text_ranks(coded: pa.DictionaryArray) -> Ranks | None:
    """The places of the texts of a column among all of them, which are in order."""
    if coded.null_count:
        return None
    return Ranks(coded.indices.to_numpy(), coded.dictionary.type, coded.dictionary.to_pylist())
