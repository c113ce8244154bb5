"""Connections to DuckDB. Each has a database of its own in memory, and so its own limit, threads, and place to spill to."""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa

from omnigraph_sql.engines.threads import AtWork, working

_IDLE = 8
_EXIT_SECONDS = 2.0
_lock = threading.RLock()
_open: weakref.WeakSet[Connection] = weakref.WeakSet()


@contextmanager
def heeding_keyboard() -> Iterator[None]:
    """Let Ctrl-C be `KeyboardInterrupt`: DuckDB raises an error of its own if it comes while this thread is inside of it."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:
        if threading.current_thread() is threading.main_thread() and _is_interrupt(error):
            raise KeyboardInterrupt from None
        raise


def _is_interrupt(error: Exception) -> bool:
    """Whether DuckDB has noticed a signal, or something that it reads from was interrupted, which leaves only a text."""
    text = str(error)
    return "KeyboardInterrupt" in text or (type(error) is RuntimeError and text == "Query interrupted")


class Connection:
    """A connection that belongs to one run at a time."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.process = os.getpid()
        self.duck = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{memory}B",
                "threads": os.cpu_count() or 1,
                # Made when it is needed, and removed with the database.
                "temp_directory": str(Path(tempfile.gettempdir()) / f"omnigraph-duckdb-{uuid4().hex}"),
                # A name in a query is a name of its plan, or a defect: never a variable or a file, and nothing is fetched.
                "python_enable_replacements": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        # In a program without a file, as a notebook is, it would draw a bar on what may be somebody's output.
        self.duck.execute("SET enable_progress_bar = false")
        self.reader: pa.RecordBatchReader | None = None
        """Rows that wait to be read: they must be gone before the database is."""
        self._is_open = True
        _open.add(self)

    def interrupt(self) -> None:
        """Stop what it is doing, from any thread."""
        if self.is_mine():
            with suppress(duckdb.ConnectionException):  # closed meanwhile
                self.duck.interrupt()

    def close(self) -> None:
        """Let go of the database."""
        with AtWork():
            with _lock:
                is_first, self._is_open = self.is_mine(), False
            if is_first:
                _open.discard(self)
                self.drain()
                self.duck.close()

    def drain(self) -> None:
        """Give up rows that nobody has read, and stop the threads that prepare them.

        To read waits for these, to drop the rows does not, and they crash.
        """
        reader, self.reader = self.reader, None
        self.duck.interrupt()
        # Whatever it fails with, nobody waits for these rows any more.
        with suppress(Exception):
            while reader is not None:
                reader.read_next_batch()

    def is_mine(self) -> bool:
        """Whether this process can use it: the threads of a database are not there in a child that was forked."""
        return self._is_open and self.process == os.getpid()


class Connections:
    """Connections that nobody makes use of at the moment: to open one takes longer than to run a small query."""

    def __init__(self) -> None:
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    def take(self, memory: int) -> Connection:
        """A connection that may use so much memory."""
        with self._lock:
            for place, found in enumerate(self._idle):
                if found.memory == memory and found.is_mine():
                    del self._idle[place]
                    return found
        return Connection(memory)

    def give(self, connection: Connection) -> None:
        """Let others make use of a connection."""
        with self._lock:
            self._idle.append(connection)
            over = self._idle[:-_IDLE]
            del self._idle[:-_IDLE]
        for each in over:
            each.close()


IDLE = Connections()
"""Those of this process: what a connection knows of a graph is gone when it is given back."""


@atexit.register
def _close_all() -> None:
    """A thread of a database that enters Python while it goes away ends the process badly."""
    _wait()
    for connection in list(_open):
        connection.close()
    _wait()


def _wait() -> None:
    until = time.monotonic() + _EXIT_SECONDS
    while working() and time.monotonic() < until:
        time.sleep(0.001)
