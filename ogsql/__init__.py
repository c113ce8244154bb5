"""Starts the command line, and ends its process.

It stands outside `omnigraph_sql` because importing that package refuses to go on beside libraries it cannot work with, and
the command should then say so in one line instead of a traceback.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

_OBJECTS = 300_000
"""New objects between two collections of garbage: imports make many and leave no garbage."""
_INTERRUPTED = 130  # 128 + SIGINT, as shells count


def main() -> NoReturn:
    """Run `ogsql` with the arguments of the process, and end the process with its exit status."""
    gc.set_threshold(_OBJECTS)
    _leave(_run())


def _run() -> int:
    try:
        from omnigraph_sql.cli import main as run
    except Exception as error:
        status = getattr(error, "exit_code", None)
        if status is None:
            raise
        print(f"error: {error}", file=sys.stderr)
        return int(status)
    return run()


def _leave(status: int) -> NoReturn:
    """End the process as Python does, but do not take its modules apart: that takes as long as a short command."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # joins the threads; those of pools are told to end first
        atexit._run_exitfuncs()
    except KeyboardInterrupt:
        status = _INTERRUPTED
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)
