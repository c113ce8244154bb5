"""Variable length: what a vertex reaches in at least so many hops and at most so many.

A destination is reported at its shortest distance only, and once. The source itself is never reported through a cycle; a
self-loop reports its vertex one hop after the vertex was reached, so one on the source counts as the first hop.

These operators follow edges from vertex to vertex, so both ends must be of one type. For an edge between two types one hop
is all there is: use `expand`.

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

from omnigraph_udfs.arrays import Ints, Mask, Positions, frozen, index_type, positions
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import Expansion, expand, has_edge, kept
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["distances", "reach", "reach_chunks", "reach_sums", "reaches", "reaches_any"]

PIECE = 1 << 16
ROWS = 1024
FEW = 8
"""So many sources are searched one after the other."""
_MOST = 2.0**62


def reach(csr: Csr, frontier: npt.ArrayLike, *, least: int, most: int) -> Expansion:
    """The destinations of each vertex of the frontier, in no particular order.

    Args:
        csr: The adjacency between vertices of one type.
        frontier: A vertex per input row, -1 for none. Equal vertices are searched once.
        least: The least number of hops, at least 1.
        most: The greatest number of hops.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
        ValueError: The bounds are not `1 <= least <= most`, or the adjacency joins two types.
    """
    _check(csr, least, most)
    vertices = positions(frontier, csr.sources)
    sources, inverse = np.unique(vertices, return_inverse=True)
    found = list(_searches(csr, sources, least, most, PIECE))
    targets = np.concatenate([np.empty(0, np.int64), *(piece.targets for piece in found)])
    counts = np.concatenate([np.empty(0, np.int64), *(np.diff(piece.offsets) for piece in found)])
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if len(sources) == len(vertices) and bool((inverse[1:] > inverse[:-1]).all()):
        return Expansion(0, offsets, targets, None)
    return expand(Csr(offsets, targets, None, csr.width), inverse)


def reach_chunks(csr: Csr, frontier: npt.ArrayLike, *, least: int, most: int, limit: int) -> Iterator[Expansion]:
    """As `reach`, in pieces of whole rows with at most `limit` destinations, or of one row that has more.

    Every row is in exactly one piece. Rows are searched as the pieces are asked for, equal ones again.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
        ValueError: As `reach`, or the limit is not positive.
    """
    _check(csr, least, most)
    if limit < 1:
        raise ValueError(f"a piece cannot hold {limit} destinations")
    yield from _searches(csr, positions(frontier, csr.sources), least, most, limit)


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
    """How many destinations each vertex of the frontier has, or the sum of their weights; none is written down.

    Args:
        csr: The adjacency between vertices of one type.
        frontier: A vertex per input row, -1 for none. Equal vertices are searched once.
        least: The least number of hops, at least 1.
        most: The greatest number of hops.
        weights: A whole number per vertex, not negative.
        turned: Whether each vertex has a loop, if the adjacency is that of edges turned round: then a loop of the vertex
            that a search begins with counts as its last hop, and no other loop counts.
        back: The adjacency the other way round, which makes searches that meet most vertices faster.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
        OverflowError: A sum might not fit into 64 bits.
        ValueError: As `reach`, or `weights` or `turned` has another length.
    """
    _check(csr, least, most)
    given = np.empty(0, np.int64) if weights is None else frozen(weights, np.int64)
    loops = np.empty(0, np.bool_) if turned is None else frozen(turned, np.bool_)
    if (weights is not None and len(given) != csr.width) or (turned is not None and len(loops) != csr.width):
        raise ValueError(f"every one of the {csr.width} vertices needs a weight and a mark")
    if len(given) and float(given.astype(np.float64).sum()) >= _MOST:
        raise OverflowError("the weights of all vertices together do not fit into 64 bits")
    sources, inverse = np.unique(positions(frontier, csr.sources), return_inverse=True)
    real = frozen(sources[sources >= 0], np.int64)
    found = np.zeros(len(sources), np.int64)
    if len(real) <= FEW and turned is None:
        sums = _counted(csr, real, least, most, given)
    else:
        sums = _summed(csr, back, real, least, most, given, loops if turned is not None else None)
    found[len(sources) - len(real) :] = sums
    return found[inverse]


def reaches(csr: Csr, sources: npt.ArrayLike, destinations: npt.ArrayLike, *, least: int, most: int) -> Mask:
    """Whether each destination is among those that `reach` gives for the source of the same row.

    Raises:
        IndexError: A vertex is not in the adjacency.
        ValueError: As `reach`, or the two differ in length.
    """
    _check(csr, least, most)
    apart = distances(csr, sources, destinations, most=most)
    within = (apart >= least) & (apart <= most)
    short = np.flatnonzero(apart == least - 1)
    heads = positions(destinations, csr.width)[short]
    within[short] = has_edge(csr, heads, heads)
    return within


def reaches_any(csr: Csr, frontier: npt.ArrayLike, *, least: int, most: int, keep: npt.ArrayLike | None = None) -> Mask:
    """Whether each vertex of the frontier reaches anything, or a vertex among those to keep.

    Args:
        csr: The adjacency between vertices of one type.
        frontier: A vertex per input row, -1 for none.
        least: The least number of hops, at least 1.
        most: The greatest number of hops.
        keep: One Boolean per vertex.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
        ValueError: As `reach`, or `keep` has another length.
    """
    from omnigraph_udfs.kernels import searches

    _check(csr, least, most)
    least, most = min(least, csr.width + 1), min(most, csr.width)
    mask = kept(csr, np.ones(csr.width, np.bool_) if keep is None else keep)
    sources, inverse = np.unique(positions(frontier, csr.sources), return_inverse=True)
    real = frozen(sources[sources >= 0], np.int64)
    found = np.zeros(len(sources), np.bool_)
    seen, queue = _scratch(csr, len(real))
    answers = found[len(sources) - len(real) :]
    searches.any_kept(csr.offsets, csr.targets, real, least, most, mask, seen, queue, answers)
    return found[inverse]


def distances(csr: Csr, sources: npt.ArrayLike, destinations: npt.ArrayLike, *, most: int) -> Positions:
    """The least number of hops from each source to the destination of the same row; -1 if it is more than `most`.

    A vertex is at distance 0 from itself, self-loop or not. A row with -1 on either side has no distance.

    Raises:
        IndexError: A vertex is not in the adjacency.
        ValueError: The two differ in length, or the adjacency joins two types.
    """
    from omnigraph_udfs.kernels import searches

    _check(csr, 1, max(most, 1))
    tails, heads = positions(sources, csr.sources), positions(destinations, csr.width)
    if len(tails) != len(heads):
        raise ValueError(f"{len(tails)} sources and {len(heads)} destinations: every row needs both")
    out = np.full(len(tails), -1, np.int64)
    seen, queue = _scratch(csr, len(tails))
    wanted, depth = np.zeros_like(seen), np.empty_like(queue)
    order = frozen(np.argsort(tails, kind="stable"), np.int64)
    most = min(most, csr.width)
    searches.pair_distances(csr.offsets, csr.targets, tails, heads, order, most, seen, wanted, depth, queue, out)
    return out


def _counted(csr: Csr, sources: Positions, least: int, most: int, weights: Positions) -> Positions:
    """The sums of a few vertices, one after the other."""
    out = np.zeros(len(sources), np.int64)
    for piece in _searches(csr, sources, least, most, PIECE):
        rows = out[piece.first : piece.first + len(piece.offsets) - 1]
        if len(weights):
            added = np.concatenate([[0], np.cumsum(weights[piece.targets])])
            rows[:] = added[piece.offsets[1:]] - added[piece.offsets[:-1]]
        else:
            rows[:] = np.diff(piece.offsets)
    return out


def _summed(
    csr: Csr, back: Csr | None, sources: Positions, least: int, most: int, weights: Positions, turned: Mask | None
) -> Positions:
    """The sums of different vertices, as many at a time as there are bits."""
    from omnigraph_udfs.kernels import spreads

    least, most = min(least, csr.width + 1), min(most, csr.width)
    asked = (csr.offsets[:0], csr.targets[:0]) if back is None else (back.offsets, back.targets)
    out = np.empty(len(sources), np.int64)
    width = 64 * spreads.LANES

    def search(share: tuple[int, int]) -> None:
        seen, now, later = (np.zeros((csr.width, spreads.LANES), np.uint64) for _ in range(3))
        queue, waiting, touched = (np.empty(csr.width, csr.targets.dtype) for _ in range(3))
        for first in range(share[0] * width, min(share[1] * width, len(sources)), width):
            some = sources[first : first + width]
            looped = np.zeros(spreads.LANES, np.uint64) if turned is None else _bits(turned[some], spreads.LANES)
            digits = np.zeros((spreads.DIGITS, spreads.LANES), np.uint64)
            marks = spreads.Marks(seen, now, later, queue, waiting, touched, digits)
            spreads.sums(csr.offsets, csr.targets, *asked, some, least, most, weights, looped, turned is not None, marks)
            ones = np.unpackbits(digits.view(np.uint8), axis=1, bitorder="little")[:, : len(some)]
            out[first : first + len(some)] = (ones.astype(np.int64) << np.arange(spreads.DIGITS)[:, None]).sum(axis=0)

    in_threads(search, shares(-(-len(sources) // width), 1))
    return out


def _bits(marks: Mask, lanes: int) -> npt.NDArray[np.uint64]:
    """Marks as the bits of words, the first one lowest."""
    found = np.zeros(lanes * 8, np.uint8)
    packed = np.packbits(marks, bitorder="little")
    found[: len(packed)] = packed
    return found.view(np.uint64)


def _check(csr: Csr, least: int, most: int) -> None:
    if not 1 <= least <= most:
        raise ValueError(f"{least} to {most} hops: at least 1 is needed, and the second bound not below the first")
    if csr.sources != csr.width:
        raise ValueError("edges between two types cannot be chained")


def _scratch(csr: Csr, count: int) -> tuple[Ints, Ints]:
    """`seen`, zero, for so many searches, and `queue`. Pages that no search touches take no memory."""
    return np.zeros(csr.width, index_type(count + 1)), np.empty(csr.width, csr.targets.dtype)


def _searches(csr: Csr, sources: Positions, least: int, most: int, limit: int) -> Iterator[Expansion]:
    """Pieces of whole rows; negative sources reach nothing."""
    from omnigraph_udfs.kernels import searches

    seen, queue = _scratch(csr, 2 * len(sources))  # a search that did not fit is begun again
    least, most = min(least, csr.width + 1), min(most, csr.width)  # no shortest path is longer
    first, begun, room = 0, 0, limit
    while first < len(sources):
        rows = frozen(sources[first : first + (max(limit, ROWS) if room == limit else 1)], np.int64)
        targets, ends = np.empty(room, np.int64), np.zeros(len(rows) + 1, np.int64)
        done, needed = searches.reached(csr.offsets, csr.targets, rows, begun, least, most, seen, queue, ends[1:], targets)
        begun += done + 1
        room = limit if done else needed
        if done:
            yield Expansion(first, ends[: done + 1], targets[: ends[done]], None)
            first += done
