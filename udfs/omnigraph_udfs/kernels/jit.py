"""How a kernel is compiled: at its first call, without the interpreter lock, and kept for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

__all__ = ["kernel", "reordering_kernel"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered and fused. Not-a-numbers and infinities keep their meaning.
REORDERING = {"reassoc", "contract", "nsz"}


def kernel(function: Function) -> Function:
    """Compiles a loop; arithmetic is done exactly as written.

    A kernel may call kernels of its own module only: what is kept is checked against the time of its own file.
    """
    return _compiled(function)


def reordering_kernel(function: Function) -> Function:
    """As `kernel`, but the order of floating-point operations is left to the compiler, for estimates."""
    return _compiled(function, fastmath=REORDERING)


def _compiled(function: Function, **options: Any) -> Function:
    options = {"nogil": True, "error_model": "numpy", **options}  # a division by zero gives infinity or no number
    try:
        made = njit(function, cache=True, **options)
    except RuntimeError:  # there is no directory to keep compiled code in: compile for this process alone
        made = njit(function, **options)
    return made  # type: ignore[no-any-return]
