"""One hop: the neighbours of many vertices at once.

>>> from omnigraph_udfs.csr import build
>>> lanes = build([0, 0, 2], [1, 2, 2], sources=3, width=3)
>>> expansion = expand(lanes, [2, 0, -1, 1])
>>> expansion.rows().tolist(), expansion.targets.tolist()
([0, 1, 1], [2, 1, 2])
>>> expansion.to_list().to_pylist()
[[2], [1, 2], [], []]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_udfs import numpy_fallback
from omnigraph_udfs.arrays import Ints, Mask, Positions, frozen, positions
from omnigraph_udfs.csr import Csr

__all__ = ["Expansion", "expand", "expand_few", "functional", "has_edge"]

_SAMPLE = 1024
_RUN = 4
"""The minimum mean length of runs of one vertex for which a merge is faster than a binary search per row."""


@dataclass(frozen=True)
class Expansion:
    """Destinations of consecutive input rows.

    Attributes:
        first: The index of the first input row.
        offsets: The start of the destinations of each row, with one more entry at the end.
        targets: The destinations.
        edges: The edge to each destination, or None if the adjacency does not store edges.
    """

    first: int
    offsets: Positions
    targets: Positions
    edges: Positions | None

    def rows(self) -> Positions:
        """Return the input row of each destination."""
        sizes = self.offsets[1:] - self.offsets[:-1]
        return np.arange(self.first, self.first + len(sizes)).repeat(sizes)

    def to_list(self) -> pa.LargeListArray:
        """Return one list of destinations per row."""
        return pa.LargeListArray.from_arrays(self.offsets, self.targets)


def expand(csr: Csr, frontier: npt.ArrayLike) -> Expansion:
    """Return the neighbours of each vertex of the frontier, with their edges if the adjacency stores edges.

    Args:
        csr: The adjacency; pass `distinct` of it to get each destination once.
        frontier: A vertex per input row, -1 for none.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
    """
    expansion = expand_few(csr, frontier, most=math.inf)
    assert expansion is not None
    return expansion


def expand_few(csr: Csr, frontier: npt.ArrayLike, *, most: float) -> Expansion | None:
    """Like `expand`, but return None if there are more than `most` destinations.

    Raises:
        IndexError: A vertex of the frontier is not in the adjacency.
    """
    vertices = positions(frontier, csr.sources)
    ends = np.zeros(len(vertices) + 1, np.int64)
    if numpy_fallback.is_enough(len(vertices)):
        np.cumsum(numpy_fallback.counts(csr.offsets, vertices), out=ends[1:])
        return None if ends[-1] > most else _gather(csr, vertices, ends, numpy_fallback.values)
    from omnigraph_udfs.kernels import expand as kernels

    kernels.counts(csr.offsets, vertices, ends[1:])
    np.cumsum(ends[1:], out=ends[1:])
    return None if ends[-1] > most else _gather(csr, vertices, ends, _compiled_values)


def _gather(
    csr: Csr, vertices: Positions, ends: Positions, values: Callable[[Ints, Ints, Positions, Positions], Positions]
) -> Expansion:
    edges = None if csr.edges is None else values(csr.offsets, csr.edges, vertices, ends)
    return Expansion(0, ends, values(csr.offsets, csr.targets, vertices, ends), edges)


def _compiled_values(offsets: Ints, values: Ints, vertices: Positions, ends: Positions) -> Positions:
    from omnigraph_udfs.kernels import expand as kernels

    out = np.empty(ends[-1], np.int64)
    kernels.fill(offsets, values, vertices, out)
    return out


def functional(csr: Csr) -> Positions | None:
    """Return the target of each vertex, -1 for none, if no vertex has more than one edge; otherwise None.

    A traversal over such an edge type is a gather from this array.
    """
    degrees = csr.degrees()
    if int(degrees.max(initial=0)) > 1:
        return None
    targets = np.full(csr.sources, -1, np.int64)
    targets[degrees == 1] = csr.targets
    return frozen(targets, np.int64)


def has_edge(csr: Csr, sources: npt.ArrayLike, destinations: npt.ArrayLike, *, back: Csr | None = None) -> Mask:
    """Return a mask of the rows whose source has an edge to the destination; False if either is -1.

    Args:
        csr: The adjacency.
        sources: The source of each row.
        destinations: The destination of each row.
        back: The transposed adjacency, which is faster for rows in runs of one destination.

    Raises:
        IndexError: A vertex is not in the adjacency.
        ValueError: The two differ in length.
    """
    from omnigraph_udfs.kernels import expand as kernels

    tails, heads = positions(sources, csr.sources), positions(destinations, csr.width)
    if len(tails) != len(heads):
        raise ValueError(f"{len(tails)} sources and {len(heads)} destinations: every row needs both")
    mask = np.empty(len(tails), np.bool_)
    if back is not None and _in_runs(heads):
        kernels.has_edge_in_runs(back.offsets, back.targets, heads, tails, mask)
    elif _in_runs(tails):
        kernels.has_edge_in_runs(csr.offsets, csr.targets, tails, heads, mask)
    else:
        kernels.has_edge(csr.offsets, csr.targets, tails, heads, mask)
    return mask


def _in_runs(vertices: Positions) -> bool:
    """True if vertices come in runs, judged by a sample of the first ones."""
    sample = vertices[:_SAMPLE]
    return len(sample) > 1 and bool(np.count_nonzero(np.diff(sample)) * _RUN < len(sample))
