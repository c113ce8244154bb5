"""Imports that Ctrl-C does not abort.

Some packages cannot be imported again after an aborted import: a program, or a shell, that continues after Ctrl-C could not
use them until it is restarted.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from typing import Final

_whole: Final[set[str]] = set()


def import_whole(name: str) -> None:
    """Import a package completely: Ctrl-C interrupts the caller, and not the import."""
    if name in _whole and sys.modules.get(name) is not None:
        return
    if threading.current_thread() is threading.main_thread():
        _import_in_thread(name)
    else:
        import_module(name)
    _whole.add(name)


def _import_in_thread(name: str) -> None:
    """Import a package in a new thread: Ctrl-C interrupts only the main thread."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            import_module(name)
        except BaseException as error:  # raised again in the calling thread
            failures.append(error)

    thread = threading.Thread(target=work, name=f"import {name}")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
