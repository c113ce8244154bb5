"""Threads that run compiled code on several cores.

The kernels release the interpreter lock, so ordinary threads run them in parallel. Numba's own parallel loops are not used:
their default scheduler is not thread-safe, and engines call operators from many threads.
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
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shares(count: int, least: int) -> list[tuple[int, int]]:
    """Split `count` items into one range per core, each at least `least` long unless it is the only one.

    >>> shares(10, 100)
    [(0, 10)]
    """
    parts = max(1, min(cores(), count // least))
    bounds = [count * part // parts for part in range(parts + 1)]
    return list(pairwise(bounds))


def in_threads(run: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results of `run` for all items, in order; the first runs in the calling thread. Calls must not nest."""
    work = list(items)
    if len(work) <= 1:
        return [run(item) for item in work]
    others = [_pool().submit(run, item) for item in work[1:]]
    return [run(work[0]), *(other.result() for other in others)]


@cache
def _pool() -> ThreadPoolExecutor:
    """Return a pool that lives as long as the process: starting a thread may take longer than its work."""
    return ThreadPoolExecutor(max(cores() - 1, 1), thread_name_prefix="omnigraph")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
