"""A child process that runs statements, and the errors for its end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import IO, Final

from omnigraph_sql.errors import Configuration, Internal, OmnigraphError, ResourceLimit
from omnigraph_sql.isolation import wire
from omnigraph_sql.runtime.limits import RunLimits, shown_size

MODULE: Final = "omnigraph_sql.statement_server"
STACK_BYTES: Final = 16 << 20
"""The stack of each engine thread in the process."""

_START_SECONDS: Final = 120.0
_MESSAGE_SLACK: Final = 64 << 20
_STDERR_TAIL_BYTES: Final = 4096
_OUT_OF_MEMORY: Final = re.compile(r"memory allocation of (\d+) bytes failed|bad_alloc|MemoryError|Cannot allocate memory")
_OVERFLOWN: Final = ("overflowed its stack", "stack overflow")


class ProcessEnded(Exception):
    """The process ended before it had replied."""


class EngineProcess:
    """A child process that runs one statement at a time. It only reads the graph, and ends when its parent does."""

    def __init__(self) -> None:
        if not sys.executable:
            hint = "run in a plain Python, or without isolated"
            raise Configuration("this program does not know its Python, and cannot start another", what="python", hint=hint)
        self.owner = os.getpid()
        self._directory = tempfile.mkdtemp(prefix="omnigraph-engine-")
        self._errors: IO[bytes] = tempfile.TemporaryFile(prefix="omnigraph-")  # noqa: SIM115 (it is open as long as this is)
        self.channel, other = socket.socketpair()
        with other:
            command = [sys.executable, "-P", "-m", MODULE, str(other.fileno()), self._directory]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=(other.fileno(),),
                start_new_session=True,  # Ctrl-C must reach the parent only
                env={**os.environ, "RUST_MIN_STACK": str(STACK_BYTES), "TMPDIR": self._directory, "RUST_BACKTRACE": "0"},
            )
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _end, self._process, self.channel, self._errors, self._directory, self.owner)
        self.is_killed = False

    @property
    def is_usable(self) -> bool:
        """True if it is running, and was started by this process."""
        return self.owner == os.getpid() and not self.is_killed and self._process.poll() is None

    def wait_ready(self) -> None:
        """Wait until it accepts requests."""
        self.channel.settimeout(_START_SECONDS)
        try:
            message = wire.receive(self.channel, most=0)
        except (TimeoutError, ValueError):
            message = None
        if message is None:
            lines = self._stderr_tail().strip().splitlines()
            self.close()
            reason = lines[-1] if lines else "it said nothing"
            raise Internal(f"the engine process did not start: {reason}", hint="run `python -c 'import omnigraph_sql'`")

    def send(self, request: bytes) -> None:
        """Send a request."""
        try:
            self.channel.settimeout(_START_SECONDS)
            wire.send(self.channel, wire.REQUEST, request)
        except OSError:
            raise ProcessEnded from None

    def receive(self, seconds: float | None, limits: RunLimits) -> tuple[bytes, bytearray]:
        """Return its next message. Raises `TimeoutError`, or `ProcessEnded` if there is none."""
        try:
            self.channel.settimeout(seconds)
            message = wire.receive(self.channel, most=limits.memory + _MESSAGE_SLACK)
        except TimeoutError:
            raise
        except (OSError, ValueError):
            message = None
        if message is None:
            raise ProcessEnded
        return message

    def kill(self) -> None:
        """Kill it, from any thread; a waiting `receive` raises `ProcessEnded`."""
        with self._lock:
            self.is_killed = True
            if self.owner == os.getpid() and self._process.poll() is None:
                self._process.kill()

    def close(self) -> None:
        """Kill it, and release its resources."""
        self.kill()
        self._end()

    def _stderr_tail(self) -> str:
        """Return the end of its standard error."""
        try:
            size = os.fstat(self._errors.fileno()).st_size
            return os.pread(self._errors.fileno(), _STDERR_TAIL_BYTES, max(0, size - _STDERR_TAIL_BYTES)).decode(
                "utf-8", "replace"
            )
        except (OSError, ValueError):
            return ""

    def error_for_exit(self, limits: RunLimits) -> OmnigraphError:
        """Return the error for a process that ended by itself."""
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        stderr = self._stderr_tail()
        hint = "narrow it down, or allow more memory"
        failed_allocation = _OUT_OF_MEMORY.search(stderr)
        is_overflow = any(sign in stderr for sign in _OVERFLOWN)
        if failed_allocation is not None or (code in (-signal.SIGKILL, -signal.SIGABRT) and not is_overflow):
            size = int(failed_allocation[1]) if failed_allocation is not None and failed_allocation[1] else limits.memory
            text = (
                f"the engine process ended: the statement needs more memory than its limit of {shown_size(limits.memory)}"
                f" and what is allowed beside it"
            )
            return ResourceLimit(text, resource="memory", limit=limits.memory, actual=max(size, limits.memory), hint=hint)
        if code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGILL):
            text = (
                f"the engine process ended by signal {-code}: the statement is too deep for a stack of {STACK_BYTES} bytes"
            )
            return ResourceLimit(
                text, resource="stack", limit=STACK_BYTES, actual=STACK_BYTES, hint="make the statement simpler"
            )
        text = f"the engine process ended with {code} before it had answered"
        return ResourceLimit(
            text, resource="process", limit=1, actual=1, hint="run it again; see its limits in the documentation"
        )


def _end(process: subprocess.Popen[bytes], channel: socket.socket, stderr: IO[bytes], directory: str, owner: int) -> None:
    channel.close()
    stderr.close()
    if owner != os.getpid():
        process.returncode = 0  # this process is a forked child, and not the parent of that one: it must not wait for it
        return
    if process.poll() is None:
        process.kill()
    process.wait()
    until = time.monotonic() + 1.0
    while Path(directory).exists() and time.monotonic() < until:
        shutil.rmtree(directory, ignore_errors=True)
