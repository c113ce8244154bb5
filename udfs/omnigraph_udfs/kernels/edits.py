"""Kernels of edit distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Mask, Positions
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["within"]

Bytes = npt.NDArray[np.uint8]
Points = npt.NDArray[np.int32]


@kernel
def _decode(data: Bytes, start: int, stop: int, out: Points) -> int:
    """Write the code points of a UTF-8 string; return their number."""
    count = 0
    at = start
    while at < stop:
        lead = np.int32(data[at])
        if lead < 0x80:
            point, size = lead, 1
        elif lead < 0xE0:
            point, size = lead & 0x1F, 2
        elif lead < 0xF0:
            point, size = lead & 0x0F, 3
        else:
            point, size = lead & 0x07, 4
        for i in range(1, size):
            point = (point << 6) | (np.int32(data[at + i]) & 0x3F)
        out[count] = point
        count += 1
        at += size
    return count


@kernel
def _is_within(word: Points, length: int, query: Points, most: int, row: Points) -> Any:
    """True if two words are at most `most` edits apart. Fills only the cells within `most` of the diagonal."""
    if abs(length - len(query)) > most:
        return False
    beyond = most + 1
    for j in range(len(query) + 1):
        row[j] = min(j, beyond)
    for i in range(1, length + 1):
        low, high = max(1, i - most), min(len(query), i + most)
        corner = row[low - 1]
        row[low - 1] = i if low == 1 and i <= most else beyond
        least = row[low - 1]
        for j in range(low, high + 1):
            above = row[j] if j < i + most else beyond
            cell = corner + (word[i - 1] != query[j - 1])
            cell = min(cell, above + 1, row[j - 1] + 1, beyond)
            corner = row[j]
            row[j] = cell
            least = min(least, cell)
        if least > most:
            return False
    return row[len(query)] <= most


@kernel
def within(offsets: Positions, data: Bytes, query: Points, most: int, word: Points, row: Points, out: Mask) -> None:
    """Mark the words that are at most `most` edits from the query.

    `word` has room for the code points of the longest word, `row` for one more than those of `query`.
    """
    for number in range(len(out)):
        size = offsets[number + 1] - offsets[number]
        if out[number] or size < len(query) - most or size > 4 * (len(query) + most):
            continue
        length = _decode(data, offsets[number], offsets[number + 1], word)
        out[number] = _is_within(word, length, query, most, row)
