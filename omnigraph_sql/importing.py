"""Imports that Ctrl-C does not leave half done.

Some packages cannot be imported again once an import of theirs was broken off: a program, or a shell, that goes on after
Ctrl-C would be without them until it is started anew.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from typing import Final

_whole: Final[set[str]] = set()


def import_whole(name: str) -> None:
    """Import a package, to the end: only whoever waits for it is interrupted."""
    if name in _whole and sys.modules.get(name) is not None:
        return
    if threading.current_thread() is threading.main_thread():
        _import_elsewhere(name)
    else:
        import_module(name)
    _whole.add(name)


def _import_elsewhere(name: str) -> None:
    """Threads but the first are not interrupted."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            import_module(name)
        except BaseException as error:  # whatever it is: the caller is told
            failures.append(error)

    thread = threading.Thread(target=work, name=f"import {name}")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
