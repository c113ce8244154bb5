"""Cancellation of compiling and planning: both call `check_deadline` at regular intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("omnigraph_deadline", default=None)


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Make `check_deadline` call `check` inside the block; an exception of `check` stops the work."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def check_deadline() -> None:
    """Call the check of the enclosing `checked_by` block, which raises if the work is cancelled or out of time."""
    check = _check.get()
    if check is not None:
        check()
