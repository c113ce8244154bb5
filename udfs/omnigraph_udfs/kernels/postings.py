"""Kernels over inverted lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Floats, Ints, Mask, Positions
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["add_scores", "add_scores_at", "live_count", "mark", "runs"]

Counts = npt.NDArray[np.unsignedinteger[Any]]


@kernel
def runs(offsets: Ints, docs: Ints, out_offsets: Positions, out_docs: Ints, out_counts: Counts) -> int:
    """Combine adjacent equal documents of a row into one with a count; return the number of results."""
    place = 0
    for row in range(len(offsets) - 1):
        for i in range(offsets[row], offsets[row + 1]):
            if i > offsets[row] and docs[i] == docs[i - 1]:
                out_counts[place - 1] += 1
            else:
                out_docs[place] = docs[i]
                out_counts[place] = 1
                place += 1
        out_offsets[row + 1] = place
    return place


@kernel
def live_count(docs: Ints, positions: Positions) -> int:
    """Return the number of documents that have a position."""
    count = 0
    for i in range(len(docs)):
        count += positions[docs[i]] >= 0
    return count


@kernel
def mark(offsets: Positions, docs: Ints, tokens: Positions, positions: Positions, out: Mask) -> None:
    """Mark the positions of the documents that contain one of the tokens."""
    for at in range(len(tokens)):
        for i in range(offsets[tokens[at]], offsets[tokens[at] + 1]):
            position = positions[docs[i]]
            if position >= 0:
                out[position] = True


@kernel
def add_scores(
    docs: Ints,
    counts: Counts,
    lengths: Counts,
    positions: Positions,
    idf: float,
    k1: float,
    b: float,
    average: float,
    scores: Floats,
    hits: Positions,
    hit_count: int,
) -> int:
    """Add the contribution of one token to the scores; append new hits and return the number of hits."""
    for i in range(len(docs)):
        position = positions[docs[i]]
        if position >= 0:
            count = np.float64(counts[i])
            if scores[position] == 0.0 and hit_count < len(hits):  # a count of 0, only in a damaged list, scores 0
                hits[hit_count] = position
                hit_count += 1
            scores[position] += idf * count * (k1 + 1.0) / (count + k1 * (1.0 - b + b * lengths[docs[i]] / average))
    return hit_count


@kernel
def add_scores_at(
    docs: Ints,
    counts: Counts,
    lengths: Counts,
    wanted: Positions,
    idf: float,
    k1: float,
    b: float,
    average: float,
    scores: Floats,
) -> None:
    """Like `add_scores`, for the wanted documents only: each is looked up in the sorted list. -1 means none."""
    for i in range(len(wanted)):
        doc = wanted[i]
        if doc < 0:
            continue
        low, high = 0, len(docs)
        while low < high:
            middle = (low + high) // 2
            if docs[middle] < doc:
                low = middle + 1
            else:
                high = middle
        if low < len(docs) and docs[low] == doc:
            count = np.float64(counts[low])
            scores[i] += idf * count * (k1 + 1.0) / (count + k1 * (1.0 - b + b * lengths[doc] / average))
