"""Compiled code on several cores.

The kernels let go of the interpreter lock, so plain threads run them side by side. Numba's own parallel loops are not used:
their default scheduler must not be entered from two threads at once, and engines call operators from many.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TypeVar

__all__ = ["cores", "in_threads", "shares"]

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shares(count: int, least: int) -> list[tuple[int, int]]:
    """Splits `count` items into ranges, one per core, none smaller than `least` unless it is the only one.

    >>> shares(10, 100)
    [(0, 10)]
    """
    parts = max(1, min(cores(), count // least))
    bounds = [count * part // parts for part in range(parts + 1)]
    return list(pairwise(bounds))


def in_threads(run: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The results of `run` on each item, in order; the first runs in the calling thread. `run` must not call this again."""
    work = list(items)
    if len(work) <= 1:
        return [run(item) for item in work]
    others = [_pool().submit(run, item) for item in work[1:]]
    return [run(work[0]), *(other.result() for other in others)]


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that stay: to start one takes longer than many a share of the work."""
    return ThreadPoolExecutor(max(cores() - 1, 1), thread_name_prefix="omnigraph")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
