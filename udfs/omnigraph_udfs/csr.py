"""The adjacency of an edge table in compressed sparse row form.

Vertices are positions in their node table, edges are positions in the edge table. An adjacency of stored edges contains
parallel edges and the position of each edge; `distinct` reduces it to the set of neighbours, as a traversal without an edge
variable needs it.

>>> out = build([0, 0, 0], [1, 1, 0], sources=2, width=2)  # A>B, A>B, A>A
>>> out.targets.tolist(), out.edges.tolist()
([0, 1, 1], [2, 0, 1])
>>> distinct(out).targets.tolist()
[0, 1]
>>> transpose(out).degrees().tolist()
[1, 2]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnigraph_udfs import numpy_fallback
from omnigraph_udfs.arrays import Ints, Positions, frozen, index_type
from omnigraph_udfs.checks import require_ascending_rows, require_offsets, require_positions
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["Csr", "build", "distinct", "extend", "transpose", "undirected"]

EDGES_PER_THREAD = 1 << 20


@dataclass(frozen=True)
class Csr:
    """Neighbours of every vertex, in one direction.

    The neighbours of vertex `v` are `targets[offsets[v]:offsets[v + 1]]`, ascending; equal ones are ordered by edge. The
    arrays are read-only and may be mapped from a file.

    Attributes:
        offsets: The start of the neighbours of each source vertex, with one more entry at the end.
        targets: Positions of the neighbours.
        edges: The position of each edge in the edge table, or None if neighbours are a set.
        width: The number of target vertices.
    """

    offsets: Positions
    targets: Ints
    edges: Ints | None
    width: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", frozen(self.offsets, np.int64))
        object.__setattr__(self, "targets", frozen(self.targets, _width(self.targets)))
        if self.edges is not None:
            object.__setattr__(self, "edges", frozen(self.edges, _width(self.edges)))

    @property
    def sources(self) -> int:
        """The number of source vertices."""
        return len(self.offsets) - 1

    @property
    def size(self) -> int:
        """The number of edges, or of neighbour pairs."""
        return len(self.targets)

    def require_sound(self, edges: int) -> None:
        """Check arrays from a file: all targets and edges are in range, and rows ascend.

        Args:
            edges: The number of edges.

        Raises:
            ValueError: The arrays are invalid.
        """
        require_offsets(self.offsets, self.size)
        require_positions(self.targets, self.width)
        require_ascending_rows(self.offsets, self.targets, strictly=self.edges is None)
        if self.edges is not None:
            if len(self.edges) != self.size:
                raise ValueError(f"{len(self.edges)} edges lead to {self.size} targets")
            require_positions(self.edges, edges)

    def degrees(self) -> Positions:
        """Return the number of neighbours, or edges, of each source vertex."""
        return np.diff(self.offsets)

    def resized(self, *, sources: int, width: int) -> Csr:
        """Return the same edges among more vertices, as after an append to a node table.

        Raises:
            ValueError: The number of vertices shrinks.
        """
        if sources < self.sources or width < self.width:
            raise ValueError(f"cannot shrink from {self.sources} x {self.width} to {sources} x {width} vertices")
        offsets = np.concatenate([self.offsets, np.full(sources - self.sources, self.offsets[-1])])
        return Csr(offsets, self.targets, self.edges, width)


def build(src: npt.ArrayLike, dst: npt.ArrayLike, *, sources: int, width: int, first_edge: int = 0) -> Csr:
    """Build the adjacency of stored edges by source, from the positions of their ends.

    Args:
        src: The source of each edge, in table order.
        dst: The target of each edge. An edge with a negative end, whose vertex is missing, is omitted.
        sources: The number of source vertices.
        width: The number of target vertices.
        first_edge: The position of the first edge.

    Raises:
        ValueError: The two columns differ in length, or an end is not among the vertices.
    """
    kind = index_type(max(sources, width))
    tails, heads = frozen(src, kind), frozen(dst, kind)
    if len(tails) != len(heads):
        raise ValueError(f"{len(tails)} sources and {len(heads)} targets: every edge needs both")
    if len(tails) and (int(tails.max()) >= sources or int(heads.max()) >= width):
        raise ValueError(f"an edge leads out of the {sources} x {width} vertices")
    edges = _count(first_edge, first_edge + len(tails))
    whole = (tails >= 0) & (heads >= 0)
    if not whole.all():
        tails, heads, edges = frozen(tails[whole], kind), frozen(heads[whole], kind), edges[whole]
    # Sorting by the minor key first, then stably by the major one, leaves each row sorted.
    return transpose(_sorted(heads, tails, edges, count=width, width=sources))


def transpose(csr: Csr) -> Csr:
    """Return the same edges by their other end."""
    rows = np.repeat(_count(0, csr.sources), csr.degrees())
    edges = csr.targets if csr.edges is None else csr.edges  # without edges, any array of this length does
    transposed = _sorted(csr.targets, rows, edges, count=csr.width, width=csr.sources)
    return transposed if csr.edges is not None else Csr(transposed.offsets, transposed.targets, None, transposed.width)


def distinct(csr: Csr) -> Csr:
    """Return each neighbour once per vertex, without edges. Shares arrays with `csr` if possible."""
    if numpy_fallback.is_enough(max(csr.size, csr.sources)):
        return _few_distinct(csr)
    from omnigraph_udfs.kernels import adjacency

    counts = np.empty(csr.sources, np.int64)
    adjacency.distinct_counts(csr.offsets, csr.targets, counts)
    offsets = _offsets(counts)
    if offsets[-1] == csr.size:
        return Csr(csr.offsets, csr.targets, None, csr.width)
    targets = np.empty(offsets[-1], csr.targets.dtype)
    adjacency.distinct_fill(csr.offsets, csr.targets, targets)
    return Csr(offsets, targets, None, csr.width)


def _few_distinct(csr: Csr) -> Csr:
    is_first = numpy_fallback.firsts(csr.offsets, csr.targets)
    if is_first.all():
        return Csr(csr.offsets, csr.targets, None, csr.width)
    before = np.zeros(csr.size + 1, np.int64)
    np.cumsum(is_first, out=before[1:])
    return Csr(before[csr.offsets], csr.targets[is_first], None, csr.width)


def undirected(out: Csr, into: Csr) -> Csr:
    """Return the edges that leave or enter each vertex: one entry per edge, a self-loop once.

    Args:
        out: Stored edges by source.
        into: The same edges by target.

    Raises:
        ValueError: The ends of the edges are of different types, or `edges` is missing.
    """
    if out.edges is None or into.edges is None:
        raise ValueError("undirected needs stored edges: with sets of neighbours a self-loop cannot be identified")
    if out.sources != out.width or (into.sources, into.width) != (out.sources, out.width):
        raise ValueError("undirected needs edges between vertices of one type")
    ends = (out.offsets, out.targets, out.edges, into.offsets, into.targets, into.edges)
    if numpy_fallback.is_enough(out.size + out.sources):
        offsets, targets, edges = numpy_fallback.union(*ends)
        return Csr(offsets, targets, edges, out.width)
    from omnigraph_udfs.kernels import adjacency

    counts = np.empty(out.sources, np.int64)
    adjacency.union_counts(*ends, counts)
    offsets = _offsets(counts)
    targets, edges = np.empty(offsets[-1], out.targets.dtype), np.empty(offsets[-1], out.edges.dtype)
    adjacency.union_fill(*ends, targets, edges)
    return Csr(offsets, targets, edges, out.width)


def extend(csr: Csr, src: npt.ArrayLike, dst: npt.ArrayLike, *, sources: int, width: int, first_edge: int) -> Csr:
    """Return the adjacency after edges or vertices were appended. Equal to a new `build`, but faster.

    Args:
        csr: Stored edges by source, before the append.
        src: The source of each new edge.
        dst: The target of each new edge.
        sources: The new number of source vertices.
        width: The new number of target vertices.
        first_edge: The position of the first new edge.

    Raises:
        ValueError: As `build`; or there are fewer vertices than before, or `edges` is missing.
    """
    if csr.edges is None:
        raise ValueError("extend needs stored edges; derive the set of neighbours from the result")
    old = csr.resized(sources=sources, width=width)
    new = build(src, dst, sources=sources, width=width, first_edge=first_edge)
    assert old.edges is not None
    assert new.edges is not None
    if numpy_fallback.is_enough(old.size + new.size + sources):
        return _few_merged(old, new)
    from omnigraph_udfs.kernels import adjacency

    targets = np.empty(old.size + new.size, new.targets.dtype)
    edges = np.empty(old.size + new.size, new.edges.dtype)
    adjacency.merge_fill(old.offsets, old.targets, old.edges, new.offsets, new.targets, new.edges, targets, edges)
    return Csr(old.offsets + new.offsets, targets, edges, width)


def _few_merged(old: Csr, new: Csr) -> Csr:
    """Both adjacencies in one; of edges to one target the old ones come first."""
    assert old.edges is not None
    assert new.edges is not None
    rows = np.concatenate([np.arange(csr.sources).repeat(csr.degrees()) for csr in (old, new)])
    targets = np.concatenate([old.targets, new.targets]).astype(new.targets.dtype, copy=False)
    edges = np.concatenate([old.edges, new.edges]).astype(new.edges.dtype, copy=False)
    order = np.lexsort((targets, rows))
    return Csr(old.offsets + new.offsets, targets[order], edges[order], new.width)


def _sorted(keys: Ints, values: Ints, edges: Ints, *, count: int, width: int) -> Csr:
    """Sort by key (stable counting sort): each thread counts its share of the edges, then writes it to its place."""
    if numpy_fallback.is_enough(len(keys) + count):
        offsets, order = numpy_fallback.sorted_by(keys, count)
        return Csr(offsets, values[order].astype(index_type(width), copy=False), edges[order], width)
    from omnigraph_udfs.kernels import adjacency

    ranges = shares(len(keys), max(EDGES_PER_THREAD, count))
    cursors = np.zeros((len(ranges), count), np.int64)
    in_threads(lambda share: adjacency.tally(keys[share[1][0] : share[1][1]], cursors[share[0]]), enumerate(ranges))
    counts = cursors.sum(axis=0)
    offsets = _offsets(counts)
    start = offsets[:-1].copy()
    for cursor in cursors:
        share_counts = cursor.copy()
        cursor[:] = start
        start += share_counts
    targets, tags = np.empty(len(keys), index_type(width)), np.empty(len(keys), edges.dtype)
    keys, values, edges = frozen(keys, keys.dtype.type), frozen(values, values.dtype.type), frozen(edges, edges.dtype.type)

    def write(share: tuple[int, tuple[int, int]]) -> None:
        number, (low, high) = share
        adjacency.scatter(keys[low:high], values[low:high], edges[low:high], cursors[number], targets, tags)

    in_threads(write, enumerate(ranges))
    return Csr(offsets, targets, tags, width)


def _count(start: int, stop: int) -> Ints:
    return np.arange(start, stop).astype(index_type(stop))


def _offsets(counts: Positions) -> Positions:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _width(values: Ints) -> type[np.int32] | type[np.int64]:
    return np.int32 if values.dtype == np.int32 else np.int64
