"""Starts the command line.

It stands outside `omnigraph_sql` because importing that package refuses to go on beside libraries it cannot work with, and
the command should then say so in one line instead of a traceback.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run `ogsql` with the arguments of the process; the result is its exit status."""
    try:
        from omnigraph_sql.cli import main as run
    except Exception as error:
        status = getattr(error, "exit_code", None)
        if status is None:
            raise
        print(f"error: {error}", file=sys.stderr)
        return int(status)
    return run()
