"""Owners of leases and operations: processes, and whether they may still be alive."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LEASE_VARIABLE: Final = "OMNIGRAPH_RECOVERY_LEASE_MS"
_LEASE_MS: Final = 30_000
_PROC: Final = Path("/proc")


@dataclass(frozen=True)
class Owner:
    """A process. `machine` distinguishes machines of one name, and containers with equal process numbers."""

    host: str
    machine: str
    pid: int
    process_start: str

    @classmethod
    def read(cls, entry: Any) -> Owner | None:
        """Parse an owner from JSON; None if it is incomplete."""
        match entry:
            case {"host": str(host), "machine": str(machine), "pid": int(pid), "process_start": str(start)}:
                return cls(host, machine, pid, start)
            case _:
                return None

    @property
    def is_gone(self) -> bool:
        """True if the process has certainly ended; never for a process on another machine."""
        here = this_process()
        if (self.host, self.machine) != (here.host, here.machine):
            return False
        return _started(self.pid) != self.process_start

    @property
    def is_of_earlier_boot(self) -> bool:
        """True if the process ran before the last boot, provided that the name of the machine is unique."""
        here = this_process()
        (boot, _, space), (boot_here, _, space_here) = self.machine.partition(" "), here.machine.partition(" ")
        return (self.host, space) == (here.host, space_here) and boot != boot_here


def this_process() -> Owner:
    return _owner(os.getpid())


@functools.lru_cache(maxsize=1)
def _owner(pid: int) -> Owner:
    return Owner(socket.gethostname(), _machine(), pid, _started(pid) or "")


def _machine() -> str:
    """The boot id and the PID namespace, on systems that have them."""
    try:
        return f"{(_PROC / 'sys/kernel/random/boot_id').read_text('ascii').strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """The start time of a process, in units of the system; None if it does not exist or has ended."""
    if not (_PROC / "self").exists():
        return _started_by_ps(pid)
    try:
        # The second field is the name of the program in parentheses, and may contain blanks and parentheses.
        fields = (_PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _started_by_ps(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def lease_seconds() -> float:
    """The seconds that a lease lasts without renewal."""
    milliseconds = os.environ.get(LEASE_VARIABLE)
    if milliseconds is None:
        return _LEASE_MS / 1000
    if milliseconds.isascii() and milliseconds.isdigit() and int(milliseconds) > 0:
        return int(milliseconds) / 1000
    text = f"{LEASE_VARIABLE}={milliseconds} is not a positive number of milliseconds; {_LEASE_MS} is used"
    warnings.warn(text, RuntimeWarning, stacklevel=2)
    return _LEASE_MS / 1000
