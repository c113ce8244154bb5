"""Shutdown of the process: the only module that registers exit hooks, and the order of their steps.

An engine thread that enters or leaves Python while the interpreter shuts down crashes the process, or makes the engine
report leaks. The steps run in the order of `Stage`: runs are stopped; connections are closed; streams are closed and engine
threads awaited; reader threads are joined; temporary directories are removed. A module registers its step when it is
imported; the order of imports does not matter.
"""

from __future__ import annotations

import atexit
import os
import shutil
import time
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path


class Stage(IntEnum):
    """The stages of the shutdown, in the order in which they run."""

    RUNS = 1
    CONNECTIONS = 2
    STREAMS = 3
    THREADS = 4
    DIRECTORIES = 5


_steps: list[tuple[Stage, Callable[[], None]]] = []
_activities: list[Callable[[], int]] = []


def at_shutdown(stage: Stage) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Decorator: run a function at a stage of the shutdown."""

    def register(step: Callable[[], None]) -> Callable[[], None]:
        _steps.append((stage, step))
        # Exit hooks run in reverse order: this one must run before those of the engines that are imported by now.
        atexit.unregister(_shut_down)
        atexit.register(_shut_down)
        return step

    return register


def counts_activity(count: Callable[[], int]) -> Callable[[], int]:
    """Decorator: register a function that counts busy engine threads; the shutdown waits until all counts are zero."""
    _activities.append(count)
    return count


def remove_at_shutdown(directory: Path) -> None:
    """Remove a directory when this process ends; the end of a forked child leaves it alone."""
    process = os.getpid()

    @at_shutdown(Stage.DIRECTORIES)
    def remove() -> None:
        if process == os.getpid():
            shutil.rmtree(directory, ignore_errors=True)


def wait_for_activity(seconds: float) -> None:
    """Wait until no engine thread is busy, at most `seconds`."""
    until = time.monotonic() + seconds
    while any(count() for count in _activities) and time.monotonic() < until:
        time.sleep(0.001)


def _shut_down() -> None:
    for _, step in sorted(_steps, key=lambda entry: entry[0]):
        step()
    # A step refers to its module and through it to its engine, which must be freed before the interpreter is.
    _steps.clear()
    _activities.clear()
