"""`ogsql` in forks of a process that has loaded everything: what a command does costs its own time, not that of its imports.

A fork behaves as a new process does, but for how it starts: it has the arguments, directory, environment and standard
streams of the caller, who gets its exit status. Tests about starting, signals and terminals run the real executable.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.warm.client import SCRIPT

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@cache
def warm_ogsql() -> Path:
    """An executable that runs `ogsql` in a fork of the server of this process."""
    directory = Path(tempfile.mkdtemp(prefix="ogsql-warm-"))
    address = directory / "socket"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm.server", str(address)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", "the server of warm processes did not start"
    executable = directory / "bin" / "ogsql"
    executable.parent.mkdir()
    executable.write_text(SCRIPT.format(python=sys.executable, address=str(address)))
    executable.chmod(0o755)
    atexit.register(_end, server, directory)
    return executable


def _end(server: subprocess.Popen[bytes], directory: Path) -> None:
    server.communicate()
    for path in (directory / "bin" / "ogsql", directory / "bin", directory / "socket", directory):
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
