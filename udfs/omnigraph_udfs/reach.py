"""Variable-length traversal: the vertices within a minimum and a maximum number of hops.

A destination is reported once, at its shortest distance. The source itself is never reported through a cycle. A self-loop
reports its vertex one hop after the vertex was reached, so a self-loop on the source counts as the first hop.

Both ends of the edges must be of one type. Edges between two types cannot be chained: use `expand`.

>>> from omnigraph_udfs.csr import build
>>> lanes = build([0, 0, 1], [1, 2, 2], sources=3, width=3)  # A>B, A>C, B>C
>>> reach(lanes, [0, 1], least=1, most=3).to_list().to_pylist()
[[1, 2], [2]]
>>> reach(lanes, [0], least=2, most=2).targets.tolist()
[]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnigraph_udfs import numpy_fallback
from omnigraph_udfs.arrays import Ints, Mask, Positions, frozen, index_type, positions
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import Expansion, expand, has_edge
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["distances", "reach", "reach_sums", "reaches"]

PIECE = 1 << 16
ROWS = 1024
STEPS = 1 << 16
"""The maximum number of vertices and edges that Python visits in less time than it takes to load compiled code."""
FEW = 8
"""The maximum number of sources that are searched one after the other."""
_MOST = 2.0**62


def reach(csr: Csr, frontier: npt.ArrayLike, *, least: int, most: int) -> Expansion:
    """Return the destinations of each vertex of the frontier, in no particular order.

    Args:
        csr: The adjacency between vertices of one type.
        frontier: A vertex per input row, -1 for none. Equal vertices are searched once.
        least: The minimum number of hops, at least 1.
        most: The maximum number of hops.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
        ValueError: The bounds are not `1 <= least <= most`, or the adjacency joins two types.
    """
    _check(csr, least, most)
    vertices = positions(frontier, csr.sources)
    sources, inverse = np.unique(vertices, return_inverse=True)
    pieces = list(_searches(csr, sources, least, most))
    targets = np.concatenate([np.empty(0, np.int64), *(piece.targets for piece in pieces)])
    counts = np.concatenate([np.empty(0, np.int64), *(np.diff(piece.offsets) for piece in pieces)])
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if len(sources) == len(vertices) and bool((inverse[1:] > inverse[:-1]).all()):
        return Expansion(0, offsets, targets, None)
    return expand(Csr(offsets, targets, None, csr.width), inverse)


def reach_sums(
    csr: Csr,
    frontier: npt.ArrayLike,
    *,
    least: int,
    most: int,
    weights: npt.ArrayLike | None = None,
    turned: npt.ArrayLike | None = None,
    back: Csr | None = None,
) -> Positions:
    """Return the number of destinations of each vertex of the frontier, or the sum of their weights.

    Args:
        csr: The adjacency between vertices of one type.
        frontier: A vertex per input row, -1 for none. Equal vertices are searched once.
        least: The minimum number of hops, at least 1.
        most: The maximum number of hops.
        weights: A non-negative integer per vertex.
        turned: A mask of the vertices with a self-loop, if the adjacency is transposed: a self-loop of the start vertex
            then counts as the last hop, and no other self-loop counts.
        back: The transposed adjacency, which is faster for searches that reach most vertices.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
        OverflowError: A sum might not fit into 64 bits.
        ValueError: As `reach`, or `weights` or `turned` has another length.
    """
    _check(csr, least, most)
    vertex_weights = np.empty(0, np.int64) if weights is None else frozen(weights, np.int64)
    loops = np.empty(0, np.bool_) if turned is None else frozen(turned, np.bool_)
    if (weights is not None and len(vertex_weights) != csr.width) or (turned is not None and len(loops) != csr.width):
        raise ValueError(f"every one of the {csr.width} vertices needs a weight and a mark")
    if len(vertex_weights) and float(vertex_weights.astype(np.float64).sum()) >= _MOST:
        raise OverflowError("the weights of all vertices together do not fit into 64 bits")
    sources, inverse = np.unique(positions(frontier, csr.sources), return_inverse=True)
    real = frozen(sources[sources >= 0], np.int64)
    out = np.zeros(len(sources), np.int64)
    if len(real) <= FEW and turned is None:
        sums = _sums_by_search(csr, real, least, most, vertex_weights)
    else:
        sums = _sums_by_multi_search(csr, back, real, least, most, vertex_weights, loops if turned is not None else None)
    out[len(sources) - len(real) :] = sums
    return out[inverse]


def reaches(csr: Csr, sources: npt.ArrayLike, destinations: npt.ArrayLike, *, least: int, most: int) -> Mask:
    """Return a mask of the rows whose destination `reach` returns for their source.

    Raises:
        IndexError: A vertex is not in the adjacency.
        ValueError: As `reach`, or the two differ in length.
    """
    _check(csr, least, most)
    hops = distances(csr, sources, destinations, most=most)
    within = (hops >= least) & (hops <= most)
    short = np.flatnonzero(hops == least - 1)
    heads = positions(destinations, csr.width)[short]
    within[short] = has_edge(csr, heads, heads)
    return within


def distances(csr: Csr, sources: npt.ArrayLike, destinations: npt.ArrayLike, *, most: int) -> Positions:
    """Return the minimum number of hops from each source to the destination of its row, -1 if above `most`.

    A vertex is at distance 0 from itself, with or without a self-loop. A row with -1 on either side has no distance.

    Raises:
        IndexError: A vertex is not in the adjacency.
        ValueError: The two differ in length, or the adjacency joins two types.
    """
    from omnigraph_udfs.kernels import bfs

    _check(csr, 1, max(most, 1))
    tails, heads = positions(sources, csr.sources), positions(destinations, csr.width)
    if len(tails) != len(heads):
        raise ValueError(f"{len(tails)} sources and {len(heads)} destinations: every row needs both")
    out = np.full(len(tails), -1, np.int64)
    seen, queue = _scratch(csr, len(tails))
    wanted, depth = np.zeros_like(seen), np.empty_like(queue)
    order = frozen(np.argsort(tails, kind="stable"), np.int64)
    most = min(most, csr.width)
    bfs.pair_distances(csr.offsets, csr.targets, tails, heads, order, most, seen, wanted, depth, queue, out)
    return out


def _sums_by_search(csr: Csr, sources: Positions, least: int, most: int, weights: Positions) -> Positions:
    """Return the sums of few vertices, one search after the other."""
    out = np.zeros(len(sources), np.int64)
    for piece in _searches(csr, sources, least, most):
        rows = out[piece.first : piece.first + len(piece.offsets) - 1]
        if len(weights):
            running = np.concatenate([[0], np.cumsum(weights[piece.targets])])
            rows[:] = running[piece.offsets[1:]] - running[piece.offsets[:-1]]
        else:
            rows[:] = np.diff(piece.offsets)
    return out


def _sums_by_multi_search(
    csr: Csr, back: Csr | None, sources: Positions, least: int, most: int, weights: Positions, turned: Mask | None
) -> Positions:
    """Return the sums of distinct vertices, searched in batches with one bit per vertex."""
    from omnigraph_udfs.kernels import multi_bfs

    least, most = min(least, csr.width + 1), min(most, csr.width)
    transposed = (csr.offsets[:0], csr.targets[:0]) if back is None else (back.offsets, back.targets)
    out = np.empty(len(sources), np.int64)
    width = 64 * multi_bfs.LANES

    def search(share: tuple[int, int]) -> None:
        seen, now, later = (np.zeros((csr.width, multi_bfs.LANES), np.uint64) for _ in range(3))
        queue, waiting, touched = (np.empty(csr.width, csr.targets.dtype) for _ in range(3))
        for first in range(share[0] * width, min(share[1] * width, len(sources)), width):
            batch = sources[first : first + width]
            looped = np.zeros(multi_bfs.LANES, np.uint64) if turned is None else _bits(turned[batch], multi_bfs.LANES)
            digits = np.zeros((multi_bfs.DIGITS, multi_bfs.LANES), np.uint64)
            marks = multi_bfs.Marks(seen, now, later, queue, waiting, touched, digits)
            multi_bfs.sums(
                csr.offsets, csr.targets, *transposed, batch, least, most, weights, looped, turned is not None, marks
            )
            ones = np.unpackbits(digits.view(np.uint8), axis=1, bitorder="little")[:, : len(batch)]
            out[first : first + len(batch)] = (ones.astype(np.int64) << np.arange(multi_bfs.DIGITS)[:, None]).sum(axis=0)

    in_threads(search, shares(-(-len(sources) // width), 1))
    return out


def _bits(marks: Mask, lanes: int) -> npt.NDArray[np.uint64]:
    """Pack marks into the bits of words, the first one in the lowest bit."""
    out = np.zeros(lanes * 8, np.uint8)
    packed = np.packbits(marks, bitorder="little")
    out[: len(packed)] = packed
    return out.view(np.uint64)


def _check(csr: Csr, least: int, most: int) -> None:
    if not 1 <= least <= most:
        raise ValueError(f"{least} to {most} hops: at least 1 is needed, and the second bound not below the first")
    if csr.sources != csr.width:
        raise ValueError("edges between two types cannot be chained")


def _scratch(csr: Csr, count: int) -> tuple[Ints, Ints]:
    """Return the arrays `seen`, filled with 0, and `queue` for `count` searches."""
    return np.zeros(csr.width, index_type(count + 1)), np.empty(csr.width, csr.targets.dtype)


def _searches(csr: Csr, sources: Positions, least: int, most: int) -> Iterator[Expansion]:
    """Yield the destinations of the sources in pieces of whole rows; negative sources have none."""
    if len(sources) and _is_short(csr, len(sources)):
        ends, targets = numpy_fallback.reached(
            csr.offsets, csr.targets, sources, min(least, csr.width + 1), min(most, csr.width)
        )
        yield Expansion(0, ends, targets, None)
        return
    from omnigraph_udfs.kernels import bfs

    seen, queue = _scratch(csr, 2 * len(sources))  # a search that did not fit is repeated
    least, most = min(least, csr.width + 1), min(most, csr.width)  # no shortest path is longer
    first, started, room = 0, 0, PIECE
    while first < len(sources):
        rows = frozen(sources[first : first + (max(PIECE, ROWS) if room == PIECE else 1)], np.int64)
        targets, ends = np.empty(room, np.int64), np.zeros(len(rows) + 1, np.int64)
        done, needed = bfs.reached(csr.offsets, csr.targets, rows, started, least, most, seen, queue, ends[1:], targets)
        started += done + 1
        room = PIECE if done else needed
        if done:
            yield Expansion(first, ends[: done + 1], targets[: ends[done]], None)
            first += done


def _is_short(csr: Csr, searches: int) -> bool:
    """True if Python completes the searches before compiled code would be loaded."""
    steps = searches * (csr.size + csr.width)
    return steps <= STEPS and not numpy_fallback.is_loaded() and numpy_fallback.is_enough(steps)
