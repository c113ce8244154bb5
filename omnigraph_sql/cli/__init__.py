"""The command line `ogsql`.

`app` lists the commands, `main` is the boundary to the process (exit codes, signals, errors). Everything else is
imported when a command runs, so that `ogsql --help` is there at once.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

__all__ = ["main"]

_INTERRUPTED = 130  # 128 + SIGINT, as shells count


def main() -> int:
    """Run the command line with the arguments of the process; the result is its exit status."""
    try:
        # Imported here so that an interrupt during the import is handled as well.
        from omnigraph_sql.cli.main import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        # Threads of a query may still run. The process does not wait for them, and they must not meet a dying interpreter.
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(_INTERRUPTED)
