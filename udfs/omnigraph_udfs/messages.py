"""Aggregates over the neighbours of every vertex, without writing down a single path.

A query that only aggregates over a tree of traversals, grouped by one variable, sends weights along the edges towards that
variable: a filter is a weight of 0 or 1, branches at a vertex multiply. On `distinct` adjacencies the multiplicities are
those of the rows that a traversal without an edge variable would give; on stored edges each edge counts.

>>> from omnigraph_udfs.csr import build
>>> follows = build([0, 0, 1, 2], [1, 2, 2, 0], sources=3, width=3)
>>> ends = sum_over(follows, np.array([1, 1, 0]))  # paths of one hop that end at 0 or 1
>>> sum_over(follows, ends).tolist()               # paths of two hops that do
[1, 1, 1]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph_udfs import few
from omnigraph_udfs.arrays import Floats, Mask, Positions, frozen
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["count_over", "max_over", "min_over", "sum_edges", "sum_over"]

EDGES_PER_THREAD = 1 << 18
LIGHT = 8  # a sum over an edge is so much lighter than what else is done for one
SAFE = 2**62  # far enough from the end of the 64-bit integers that an estimate in floating point decides


def sum_over(csr: Csr, values: npt.ArrayLike) -> Positions | Floats:
    """For each source vertex the sum of its neighbours' values: integers exactly, floating point in float64.

    Args:
        csr: The adjacency.
        values: One number per target vertex; a Boolean counts as 0 or 1.

    Raises:
        OverflowError: A sum of integers may not fit 64 bits.
        ValueError: There is not one value per target vertex.
    """
    given = np.asarray(values)
    _check(csr, given)
    if np.issubdtype(given.dtype, np.floating):
        return _sums(csr, frozen(given, np.float64))
    if given.size and csr.size:
        bound = max(abs(int(given.max())), abs(int(given.min())))
        if bound * int(csr.degrees().max()) >= SAFE:
            estimate = _sums(csr, frozen(np.abs(given.astype(np.float64)), np.float64))
            if bound >= SAFE or float(estimate.max()) >= SAFE:
                raise OverflowError("a sum over neighbours may exceed 64 bits; use floating point")
    return _sums(csr, frozen(given, np.int64))


def _sums(csr: Csr, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if few.is_enough(csr.size // LIGHT):
        return few.sums(csr.offsets, csr.targets, values)
    from omnigraph_udfs.kernels import messages

    out = np.empty(csr.sources, values.dtype)
    messages.sums(csr.offsets, csr.targets, values, out)
    return out


def sum_edges(
    ends: npt.NDArray[Any], others: npt.NDArray[Any], kept: npt.ArrayLike, weights: Positions | None, *, size: int
) -> Positions:
    """For each of `size` vertices how many edges it is the end of, or the sum of the weights of their other ends.

    Args:
        ends: One end of every edge, a vertex.
        others: The other end.
        kept: Which of the edges count.
        weights: A whole number for every vertex at the other end. Their sum over the edges must fit into 64 bits.
        size: How many vertices there are at this end.

    >>> sum_edges(np.array([0, 1, 1]), np.array([2, 0, 1]), [True, True, False], None, size=3).tolist()
    [1, 1, 0]
    """
    mask = frozen(kept, np.bool_)
    if few.is_enough(len(ends) // LIGHT):
        given = mask.astype(np.float64) if weights is None else np.where(mask, weights[others], 0)
        if weights is None or float(given.sum(dtype=np.float64)) < 2.0**53:
            return np.bincount(ends, weights=given, minlength=size).astype(np.int64)
    from omnigraph_udfs.kernels import tallies

    def tally(share: tuple[int, int]) -> Positions:
        some, out = slice(*share), np.zeros(size, np.int64)
        if weights is None:
            tallies.counts(ends[some], mask[some], out)
        else:
            tallies.sums(ends[some], others[some], mask[some], frozen(weights, np.int64), out)
        return out

    found, *others_found = in_threads(tally, shares(len(ends), EDGES_PER_THREAD))
    for other in others_found:
        found += other
    return found


def count_over(csr: Csr, keep: npt.ArrayLike) -> Positions:
    """For each source vertex how many of its neighbours are among those to keep.

    Raises:
        ValueError: There is not one Boolean per target vertex.
    """
    from omnigraph_udfs.kernels import messages

    mask = frozen(keep, np.bool_)
    _check(csr, mask)
    out = np.empty(csr.sources, np.int64)
    messages.sums(csr.offsets, csr.targets, mask, out)
    return out


def min_over(csr: Csr, values: npt.ArrayLike, known: npt.ArrayLike | None = None) -> tuple[npt.NDArray[Any], Mask]:
    """For each source vertex the smallest value among its neighbours, and whether there is any.

    Not-a-number counts as larger than every number.

    Args:
        csr: The adjacency.
        values: One number per target vertex.
        known: Which of them are not null; all, if not given.

    Raises:
        ValueError: There is not one value per target vertex.
    """
    from omnigraph_udfs.kernels import messages

    return _extreme(messages.smallest, csr, values, known)


def max_over(csr: Csr, values: npt.ArrayLike, known: npt.ArrayLike | None = None) -> tuple[npt.NDArray[Any], Mask]:
    """For each source vertex the largest value among its neighbours, and whether there is any; as `min_over`."""
    from omnigraph_udfs.kernels import messages

    return _extreme(messages.largest, csr, values, known)


def _extreme(kernel: Any, csr: Csr, values: npt.ArrayLike, known: npt.ArrayLike | None) -> tuple[npt.NDArray[Any], Mask]:
    given = np.asarray(values)
    mask = frozen(np.ones(given.shape, np.bool_) if known is None else known, np.bool_)
    _check(csr, given)
    _check(csr, mask)
    out, found = np.zeros(csr.sources, given.dtype), np.zeros(csr.sources, np.bool_)
    if given.size:
        kernel(csr.offsets, csr.targets, frozen(given, given.dtype.type), mask, out, found)
    return out, found


def _check(csr: Csr, values: npt.NDArray[Any]) -> None:
    if values.shape != (csr.width,):
        raise ValueError(f"{values.size} values for {csr.width} target vertices")
