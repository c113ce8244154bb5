"""Aggregates over the neighbours of every vertex, without materialising paths.

A query that aggregates over a tree of traversals, grouped by one variable, propagates weights along the edges towards that
variable: a filter is a weight of 0 or 1, and the weights of branches at a vertex are multiplied. On `distinct` adjacencies
the multiplicities are those of a traversal without an edge variable; on stored edges each edge counts.

>>> from omnigraph_udfs.csr import build
>>> follows = build([0, 0, 1, 2], [1, 2, 2, 0], sources=3, width=3)
>>> ends = sum_over(follows, np.array([1, 1, 0]))  # paths of one hop that end at 0 or 1
>>> sum_over(follows, ends).tolist()               # paths of two hops that end there
[1, 1, 1]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph_udfs import numpy_fallback
from omnigraph_udfs.arrays import Floats, Positions, frozen
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["sum_edges", "sum_over"]

EDGES_PER_THREAD = 1 << 18
LIGHT = 8  # the cost of other operations per edge, relative to a sum
SAFE = 2**62  # well below the 64-bit maximum, so that a floating-point estimate is sufficient


def sum_over(csr: Csr, values: npt.ArrayLike) -> Positions | Floats:
    """Return for each source vertex the sum of its neighbours' values: exact for integers, float64 otherwise.

    Args:
        csr: The adjacency.
        values: One number per target vertex; a Boolean counts as 0 or 1.

    Raises:
        OverflowError: A sum of integers may not fit 64 bits.
        ValueError: There is not one value per target vertex.
    """
    array = np.asarray(values)
    _check(csr, array)
    if np.issubdtype(array.dtype, np.floating):
        return _sums(csr, frozen(array, np.float64))
    if array.size and csr.size:
        bound = max(abs(int(array.max())), abs(int(array.min())))
        if bound * int(csr.degrees().max()) >= SAFE:
            estimate = _sums(csr, frozen(np.abs(array.astype(np.float64)), np.float64))
            if bound >= SAFE or float(estimate.max()) >= SAFE:
                raise OverflowError("a sum over neighbours may exceed 64 bits; use floating point")
    return _sums(csr, frozen(array, np.int64))


def _sums(csr: Csr, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if numpy_fallback.is_enough(csr.size // LIGHT):
        return numpy_fallback.sums(csr.offsets, csr.targets, values)
    from omnigraph_udfs.kernels import path_aggregates

    out = np.empty(csr.sources, values.dtype)
    path_aggregates.sums(csr.offsets, csr.targets, values, out)
    return out


def sum_edges(
    ends: npt.NDArray[Any], others: npt.NDArray[Any], selected: npt.ArrayLike, weights: Positions | None, *, size: int
) -> Positions:
    """Return for each of `size` vertices the number of its edges, or the sum of the weights of their other ends.

    Args:
        ends: One end of every edge, a vertex.
        others: The other end.
        selected: A mask of the edges to count.
        weights: An integer for every vertex at the other end. Their sum over the edges must fit into 64 bits.
        size: The number of vertices at this end.

    >>> sum_edges(np.array([0, 1, 1]), np.array([2, 0, 1]), [True, True, False], None, size=3).tolist()
    [1, 1, 0]
    """
    mask = frozen(selected, np.bool_)
    if numpy_fallback.is_enough(len(ends) // LIGHT):
        edge_weights = mask.astype(np.float64) if weights is None else np.where(mask, weights[others], 0)
        if weights is None or float(edge_weights.sum(dtype=np.float64)) < 2.0**53:
            return np.bincount(ends, weights=edge_weights, minlength=size).astype(np.int64)
    from omnigraph_udfs.kernels import edge_counts

    def tally(share: tuple[int, int]) -> Positions:
        block, out = slice(*share), np.zeros(size, np.int64)
        if weights is None:
            edge_counts.counts(ends[block], mask[block], out)
        else:
            edge_counts.sums(ends[block], others[block], mask[block], frozen(weights, np.int64), out)
        return out

    total, *partials = in_threads(tally, shares(len(ends), EDGES_PER_THREAD))
    for partial in partials:
        total += partial
    return total


def _check(csr: Csr, values: npt.NDArray[Any]) -> None:
    if values.shape != (csr.width,):
        raise ValueError(f"{values.size} values for {csr.width} target vertices")
