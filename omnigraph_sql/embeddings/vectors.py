"""Validation and normalisation of computed vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph_sql.arguments import checked, whole

Vectors = npt.NDArray[np.float32]
_LEAST_NORM = float(np.finfo(np.float32).eps)


class UnusableVector(ValueError):
    """A vector is unusable; the text completes a sentence that begins with the vector."""


def numbers(values: Any, dimension: int) -> npt.NDArray[np.float64]:
    """Convert a JSON value to the components of a vector; raises `UnusableVector`."""
    if not isinstance(values, list):
        raise UnusableVector("is not an array of numbers")
    # NumPy would also accept strings, Booleans and nested arrays.
    if not set(map(type, values)) <= {int, float}:
        raise UnusableVector("holds something other than numbers")
    if len(values) != dimension:
        raise UnusableVector(f"has {len(values)} dimensions, not {dimension}")
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        raise UnusableVector("holds a number that is not finite") from None


@checked(dimension=whole(least=1))
def normalised(vectors: npt.NDArray[Any], dimension: int) -> Vectors:
    """Divide each row by its length; raises `UnusableVector` for zero and non-finite rows.

    The length is summed in float64 from the first component to the last, so the result is the same on every platform.
    """
    try:
        wide = np.asarray(vectors, dtype=np.float64)
    except Exception:  # members of any type may raise anything
        raise UnusableVector("is not made of numbers") from None
    if wide.ndim != 2:
        raise UnusableVector("does not stand in a row of its own")
    if wide.shape[1] != dimension:
        raise UnusableVector(f"has {wide.shape[1]} dimensions, not {dimension}")
    if not np.isfinite(wide).all():
        raise UnusableVector("holds a number that is not finite")
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.cumsum(wide * wide, axis=1)[:, -1])
    if not np.isfinite(norms).all():
        raise UnusableVector("holds numbers that are too large")
    if (norms <= _LEAST_NORM).any():
        raise UnusableVector("is zero, or so short that it has no direction")
    return (wide / norms[:, np.newaxis]).astype(np.float32)
