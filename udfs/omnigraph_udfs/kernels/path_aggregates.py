"""Kernels that aggregate the values of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Ints
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["sums"]


@kernel
def sums(offsets: Ints, targets: Ints, values: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """Write the sum of the values of the neighbours of each vertex."""
    for vertex in range(len(out)):
        total = out.dtype.type(0)
        for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + 1])):
            total += values[np.uint64(targets[i])]
        out[vertex] = total
