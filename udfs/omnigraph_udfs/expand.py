"""One hop: the destinations of many vertices at once.

>>> from omnigraph_udfs.csr import build
>>> lanes = build([0, 0, 2], [1, 2, 2], sources=3, width=3)
>>> found = expand(lanes, [2, 0, -1, 1])
>>> found.rows().tolist(), found.targets.tolist()
([0, 1, 1], [2, 1, 2])
>>> found.to_list().to_pylist()
[[2], [1, 2], [], []]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_udfs import few
from omnigraph_udfs.arrays import Ints, Mask, Positions, frozen, positions
from omnigraph_udfs.csr import Csr

__all__ = ["Expansion", "expand", "expand_chunks", "expand_few", "functional", "has_any", "has_edge"]

_LOOKED_AT = 1024
_RUN = 4
"""From runs as long as this on, going through the neighbours of the one vertex is better than looking for each."""


@dataclass(frozen=True)
class Expansion:
    """Destinations of consecutive input rows.

    Attributes:
        first: The number of the first input row covered.
        offsets: Where the destinations of each covered row begin, and where those of the last end.
        targets: The destinations.
        edges: The edge that led to each destination, where the adjacency is one of stored edges.
    """

    first: int
    offsets: Positions
    targets: Positions
    edges: Positions | None

    def rows(self) -> Positions:
        """The input row of each destination."""
        sizes = self.offsets[1:] - self.offsets[:-1]
        return np.arange(self.first, self.first + len(sizes)).repeat(sizes)

    def to_list(self) -> pa.LargeListArray:
        """One list of destinations for each covered row."""
        return pa.LargeListArray.from_arrays(self.offsets, self.targets)


def expand(csr: Csr, frontier: npt.ArrayLike, *, keep: npt.ArrayLike | None = None) -> Expansion:
    """The neighbours of each vertex of the frontier, with their edges where the adjacency has them.

    Args:
        csr: The adjacency; `distinct` of it where each destination shall come once.
        frontier: A vertex per input row, -1 for none.
        keep: One Boolean per target vertex: destinations to keep.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
    """
    vertices = positions(frontier, csr.sources)
    if keep is None and few.is_enough(len(vertices)):
        return _few(csr, vertices, _ends(csr, vertices))
    hop = _Hop.of(csr, vertices, keep)
    return hop.piece(0, int(hop.ends[-1]), 0, len(hop.frontier))


def expand_few(csr: Csr, frontier: npt.ArrayLike, *, most: float) -> Expansion | None:
    """As `expand`, or None if there are more than so many destinations.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
    """
    vertices = positions(frontier, csr.sources)
    if not few.is_enough(len(vertices)):
        hop = _Hop.of(csr, vertices, None)
        return None if hop.ends[-1] > most else hop.piece(0, int(hop.ends[-1]), 0, len(hop.frontier))
    ends = _ends(csr, vertices)
    return None if ends[-1] > most else _few(csr, vertices, ends)


def _ends(csr: Csr, vertices: Positions) -> Positions:
    ends = np.zeros(len(vertices) + 1, np.int64)
    np.cumsum(few.counts(csr.offsets, vertices), out=ends[1:])
    return ends


def _few(csr: Csr, vertices: Positions, ends: Positions) -> Expansion:
    edges = None if csr.edges is None else few.values(csr.offsets, csr.edges, vertices, ends)
    return Expansion(0, ends, few.values(csr.offsets, csr.targets, vertices, ends), edges)


def expand_chunks(
    csr: Csr, frontier: npt.ArrayLike, *, limit: int, keep: npt.ArrayLike | None = None
) -> Iterator[Expansion]:
    """As `expand`, in pieces of at most `limit` destinations, so that memory is bounded whatever the frontier.

    A vertex with many neighbours may be spread over several pieces. Rows without destinations may be in none.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
        ValueError: The limit is not positive.
    """
    if limit < 1:
        raise ValueError(f"a piece cannot hold {limit} destinations")
    hop = _Hop.of(csr, frontier, keep)
    total = int(hop.ends[-1])
    for start in range(0, total, limit):
        stop = min(start + limit, total)
        low = int(np.searchsorted(hop.ends, start, side="right")) - 1
        high = int(np.searchsorted(hop.ends, stop, side="left"))
        yield hop.piece(start, stop, low, high)


def functional(csr: Csr) -> Positions | None:
    """For an edge type with at most one edge per source vertex, the target of each vertex, -1 for none; otherwise None.

    A traversal over such an edge is a plain gather from this array.
    """
    degrees = csr.degrees()
    if int(degrees.max(initial=0)) > 1:
        return None
    targets = np.full(csr.sources, -1, np.int64)
    targets[degrees == 1] = csr.targets
    return frozen(targets, np.int64)


def has_any(csr: Csr, frontier: npt.ArrayLike, *, keep: npt.ArrayLike | None = None) -> Mask:
    """Whether each vertex of the frontier has a neighbour, or one among those to keep.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
    """
    vertices = positions(frontier, csr.sources)
    if keep is None and few.is_enough(len(vertices)):
        return few.counts(csr.offsets, vertices) > 0
    from omnigraph_udfs.kernels import hops

    if keep is None:
        degrees = np.empty(len(vertices), np.int64)
        hops.counts(csr.offsets, vertices, degrees)
        return degrees > 0
    found = np.empty(len(vertices), np.bool_)
    hops.any_kept(csr.offsets, csr.targets, vertices, kept(csr, keep), found)
    return found


def has_edge(csr: Csr, sources: npt.ArrayLike, destinations: npt.ArrayLike, *, back: Csr | None = None) -> Mask:
    """Whether an edge leads from each source to the destination of the same row; never where either is -1.

    Args:
        csr: The adjacency.
        sources: Where the edges would begin.
        destinations: Where they would end.
        back: The adjacency the other way round. Rows that come in runs of one destination are found faster there.

    Raises:
        IndexError: A vertex is not in the adjacency.
        ValueError: The two differ in length.
    """
    from omnigraph_udfs.kernels import hops

    tails, heads = positions(sources, csr.sources), positions(destinations, csr.width)
    if len(tails) != len(heads):
        raise ValueError(f"{len(tails)} sources and {len(heads)} destinations: every row needs both")
    found = np.empty(len(tails), np.bool_)
    if back is not None and _in_runs(heads):
        hops.has_edge_in_runs(back.offsets, back.targets, heads, tails, found)
    elif _in_runs(tails):
        hops.has_edge_in_runs(csr.offsets, csr.targets, tails, heads, found)
    else:
        hops.has_edge(csr.offsets, csr.targets, tails, heads, found)
    return found


def _in_runs(vertices: Positions) -> bool:
    """Whether the same vertex often comes several times in a row, as far as the first ones tell."""
    some = vertices[:_LOOKED_AT]
    return len(some) > 1 and bool(np.count_nonzero(np.diff(some)) * _RUN < len(some))


def kept(csr: Csr, keep: npt.ArrayLike) -> Mask:
    """A mask over the target vertices, checked.

    Raises:
        ValueError: It has another length.
    """
    mask = frozen(keep, np.bool_)
    if mask.shape != (csr.width,):
        raise ValueError(f"a mask of {mask.size} for {csr.width} target vertices")
    return mask


@dataclass(frozen=True)
class _Hop:
    """A hop whose destinations are counted but not yet written."""

    csr: Csr
    frontier: Positions
    keep: Mask | None
    ends: Positions

    @classmethod
    def of(cls, csr: Csr, frontier: npt.ArrayLike, keep: npt.ArrayLike | None) -> _Hop:
        from omnigraph_udfs.kernels import hops

        vertices = positions(frontier, csr.sources)
        ends = np.zeros(len(vertices) + 1, np.int64)
        mask = None if keep is None else kept(csr, keep)
        if mask is None:
            hops.counts(csr.offsets, vertices, ends[1:])
        else:
            hops.kept_counts(csr.offsets, csr.targets, vertices, mask, ends[1:])
        np.cumsum(ends[1:], out=ends[1:])
        return cls(csr, vertices, mask, ends)

    def piece(self, start: int, stop: int, low: int, high: int) -> Expansion:
        """Destinations from `start` to `stop`, which are those of the rows from `low` to `high`."""
        offsets = np.clip(self.ends[low : high + 1], start, stop) - start
        rows, skip = self.frontier[low:high], start - int(self.ends[low])
        if self.keep is None:
            targets = self._values(self.csr.targets, rows, skip, stop - start)
            edges = None if self.csr.edges is None else self._values(self.csr.edges, rows, skip, stop - start)
            return Expansion(low, offsets, targets, edges)
        from omnigraph_udfs.kernels import hops

        places = np.empty(stop - start, np.int64)
        hops.kept_fill(self.csr.offsets, self.csr.targets, rows, self.keep, skip, places)
        edges = None if self.csr.edges is None else self.csr.edges[places].astype(np.int64)
        return Expansion(low, offsets, self.csr.targets[places].astype(np.int64), edges)

    def _values(self, values: Ints, rows: Positions, skip: int, count: int) -> Positions:
        from omnigraph_udfs.kernels import hops

        out = np.empty(count, np.int64)
        hops.fill(self.csr.offsets, values, rows, skip, out)
        return out
