"""Work that an engine asks for in the middle of planning."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def apart(run: Callable[[], T]) -> T:
    """Run something in a thread of its own, and wait: DataFusion plans and runs nothing in a thread that plans already."""
    found: Future[T] = Future()

    def work() -> None:
        try:
            found.set_result(run())
        except BaseException as error:
            found.set_exception(error)

    # Not one of a few: what is asked for may ask for more, and would wait for itself.
    threading.Thread(target=work, name="omnigraph-apart", daemon=True).start()
    return found.result()
