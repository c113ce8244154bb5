"""Processes that measure how much memory queries take; that of a process with other tests says nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from omnigraph_sql.choices import EngineName

measures: Final = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell")
_MEMORY = """
import sys
import omnigraph_sql as og

uri, engine = sys.argv[1:]

def status(name):
    \"\"\"KiB: `VmRSS` now, `VmHWM` at most so far.\"\"\"
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))
"""


def measure(code: str, uri: str, engine: EngineName) -> int:
    """The number that a process prints; its code has `og`, `uri`, `engine` and `status`."""
    command = [sys.executable, "-c", _MEMORY + code, uri, engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
