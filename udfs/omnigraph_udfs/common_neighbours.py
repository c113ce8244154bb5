"""Common neighbours: vertices one hop away from both of two vertices.

>>> from omnigraph_udfs.csr import build, transpose
>>> follows = build([0, 1, 1, 2, 3], [1, 2, 3, 0, 0], sources=4, width=4)
>>> common = meet(transpose(follows), follows, [0], [1])  # vertices that close a triangle over 0 > 1
>>> common.targets.tolist()
[2, 3]
>>> meet_counts(transpose(follows), follows, [0, 1], [1, 2]).tolist()
[2, 1]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Ints, Positions, frozen, index_type, positions
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import Expansion

__all__ = ["meet", "meet_counts", "meet_weights"]


def meet(first: Csr, second: Csr, us: npt.ArrayLike, vs: npt.ArrayLike) -> Expansion:
    """Return the common neighbours of the two vertices of each row, each once if both adjacencies are `distinct`.

    Args:
        first: Neighbours of the first vertex.
        second: Neighbours of the second vertex, of the same type.
        us: The first vertex of each row, -1 for none.
        vs: The second vertex of each row.

    Raises:
        IndexError: A vertex is not in its adjacency.
        ValueError: The rows differ in number, or the neighbours are of two types.
    """
    from omnigraph_udfs.kernels import common_neighbours

    first, second, tails, heads = _oriented(first, second, us, vs)
    ends = np.zeros(len(tails) + 1, np.int64)
    common_neighbours.count(*_arrays(first, second), tails, heads, _marks(first, tails), ends[1:])
    np.cumsum(ends[1:], out=ends[1:])
    out = np.empty(int(ends[-1]), np.int64)
    common_neighbours.fill(*_arrays(first, second), tails, heads, _marks(first, tails), out)
    return Expansion(0, ends, out, None)


def meet_counts(first: Csr, second: Csr, us: npt.ArrayLike, vs: npt.ArrayLike) -> Positions:
    """Return the number of common neighbours of the two vertices of each row; raises as `meet`."""
    from omnigraph_udfs.kernels import common_neighbours

    first, second, tails, heads = _oriented(first, second, us, vs)
    out = np.empty(len(tails), np.int64)
    common_neighbours.count(*_arrays(first, second), tails, heads, _marks(first, tails), out)
    return out


def meet_weights(first: Csr, second: Csr, us: npt.ArrayLike, vs: npt.ArrayLike, weights: npt.ArrayLike) -> Positions:
    """Return the sum of the weights of the common neighbours of each row; raises as `meet`."""
    from omnigraph_udfs.kernels import common_neighbours

    first, second, tails, heads = _oriented(first, second, us, vs)
    vertex_weights = frozen(weights, np.int64)
    if vertex_weights.shape != (first.width,):
        raise ValueError(f"{vertex_weights.size} weights for {first.width} vertices")
    out = np.empty(len(tails), np.int64)
    common_neighbours.weigh(*_arrays(first, second), tails, heads, vertex_weights, _marks(first, tails), out)
    return out


def _oriented(first: Csr, second: Csr, us: npt.ArrayLike, vs: npt.ArrayLike) -> tuple[Csr, Csr, Positions, Positions]:
    """Check the arguments, and put the side first that changes less often from row to row."""
    tails, heads = positions(us, first.sources), positions(vs, second.sources)
    if len(tails) != len(heads):
        raise ValueError(f"{len(tails)} and {len(heads)} vertices: every row needs two")
    if first.width != second.width:
        raise ValueError("neighbours of two types cannot be common")
    if np.count_nonzero(np.diff(heads)) < np.count_nonzero(np.diff(tails)):
        return second, first, heads, tails
    return first, second, tails, heads


def _arrays(first: Csr, second: Csr) -> tuple[Positions, Ints, Positions, Ints]:
    return first.offsets, first.targets, second.offsets, second.targets


def _marks(csr: Csr, rows: Positions) -> Ints:
    return np.zeros(csr.width, index_type(len(rows) + 1))
