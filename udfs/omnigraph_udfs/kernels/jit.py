"""Compilation of kernels: at the first call, without the interpreter lock, and cached for other processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from numba import config, njit

__all__ = ["kernel", "reordering_kernel"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered and fused. Not-a-numbers and infinities keep their meaning.
REORDERING = {"reassoc", "contract", "nsz"}


_settings: Any = config
"""Settings of Numba, which ships no types for them."""


def kernel(function: Function) -> Function:
    """Decorator: compile a loop, with arithmetic exactly as written.

    A kernel may call kernels of its own module only: cached code is invalidated by the time of its own file.
    """
    return _compiled(function)


def reordering_kernel(function: Function) -> Function:
    """Decorator: as `kernel`, but the compiler may reorder floating-point operations. For estimates."""
    return _compiled(function, fastmath=REORDERING)


def _compiled(function: Function, **options: Any) -> Function:
    options = {"nogil": True, "error_model": "numpy", **options}  # a division by zero gives infinity or NaN
    try:
        made = njit(function, cache=True, **options)
    except RuntimeError:  # neither the directory of the source nor the user's cache is writable
        made = _compiled_elsewhere(function, options)
    return made  # type: ignore[no-any-return]


def _compiled_elsewhere(function: Function, options: dict[str, Any]) -> Any:
    """Compile with the cache directory of omnigraph, if there is one; else for this process alone."""
    directory, before = os.environ.get("OMNIGRAPH_CACHE_DIR"), _settings.CACHE_DIR
    if directory:
        _settings.CACHE_DIR = os.path.join(directory, "kernels")  # the wrapper decides where a function is cached
        try:
            return njit(function, cache=True, **options)
        except (RuntimeError, OSError):
            pass
        finally:
            _settings.CACHE_DIR = before
    return njit(function, **options)
