"""Output of results: to the screen, to a pager if they are longer, or to a file."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO

from omnigraph_sql.cli import output
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.storage.output_files import check_destination

_PAGER = "less -FRSX"


class Screen:
    """Standard output as a session uses it."""

    def __init__(self) -> None:
        self.pages = True
        """Whether long results go through a pager; only a terminal has one."""
        self.path: str | None = None
        """The file that results go to, if any."""
        self.waited = 0.0
        """Seconds in which pagers took nothing, because people were reading."""
        self._file: TextIO | None = None

    def send_to(self, path: str) -> None:
        """Redirect results to a file, and replace its content."""
        destination = check_destination(os.path.expanduser(path), "the file `{path}` cannot be written")
        try:
            file = open(destination.target, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 (see `close`)
        except OSError as error:
            raise BadRequest(f"the file `{path}` cannot be written: {error.strerror}") from None
        self.close()
        self._file, self.path = file, path

    def close(self) -> None:
        """Redirect results to standard output."""
        if self._file is not None:
            self._file.close()
        self._file = self.path = None

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Treat output to standard output as a result."""
        if self._file is not None:
            with redirect_stdout(self._file):
                yield
            return
        pager = shlex.split(os.environ.get("PAGER") or _PAGER)
        if not self.pages or not sys.stdout.isatty() or shutil.which(pager[0]) is None:
            yield
            return
        paged = _Paged(sys.stdout, pager)
        try:
            with suppress(_ReaderGone), redirect_stdout(paged):
                yield
        finally:
            self.waited += paged.waited
            paged.finish()


class _ReaderGone(Exception):
    """The user left the pager before the end of the output."""


class _Paged(io.TextIOBase):
    """Buffers output until it exceeds the screen, and then starts the pager."""

    def __init__(self, screen: TextIO, pager: list[str]) -> None:
        self._screen = screen
        self._pager = pager
        self._kept = ""
        self._running: subprocess.Popen[str] | None = None
        self.waited = 0.0

    def isatty(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._screen.encoding

    def write(self, text: str) -> int:
        if self._running is None:
            self._kept += text
            if self._kept.count("\n") < shutil.get_terminal_size().lines:
                return len(text)
            environment = {**os.environ, "LESSCHARSET": "utf-8"}
            self._running = subprocess.Popen(
                self._pager, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8", errors="backslashreplace"
            )
            text, self._kept = self._kept, ""
        assert self._running.stdin is not None
        started = time.perf_counter()
        try:
            self._running.stdin.write(text)
            self._running.stdin.flush()
        except BrokenPipeError:
            raise _ReaderGone from None
        finally:
            self.waited += time.perf_counter() - started
        return len(text)

    def finish(self) -> None:
        """Flush the output and wait for the pager."""
        if self._running is None:
            output.write(self._kept, self._screen)
            return
        # An interrupt is the pager's business now; it comes to both of us.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            if self._running.stdin is not None:
                with suppress(BrokenPipeError):
                    self._running.stdin.close()
            self._running.wait()
        finally:
            signal.signal(signal.SIGINT, handler)
