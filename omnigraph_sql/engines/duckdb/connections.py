"""Connections to DuckDB. Each has its own in-memory database, and so its own memory limit, threads and spill directory."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb
import pyarrow as pa

from omnigraph_sql.caches import Pool
from omnigraph_sql.runtime.shutdown import Stage, at_shutdown
from omnigraph_sql.runtime.worker_threads import PendingWork, pending_work

_IDLE = 8
_EXIT_SECONDS = 2.0
_lock = threading.RLock()
_open: weakref.WeakSet[Connection] = weakref.WeakSet()


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for the error that DuckDB raises when Ctrl-C interrupts it."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:
        if threading.current_thread() is threading.main_thread() and _is_interrupt(error):
            raise KeyboardInterrupt from None
        raise


def _is_interrupt(error: Exception) -> bool:
    """True if a signal interrupted DuckDB, or a reader that it called: then only the text of the exception remains."""
    text = str(error)
    return "KeyboardInterrupt" in text or (type(error) is RuntimeError and text == "Query interrupted")


def remove_spills(directory: str, process: int) -> None:
    """Remove the spill directory of a database if this process created it, and not the parent that it was forked from."""
    if process == os.getpid():
        shutil.rmtree(directory, ignore_errors=True)


class Connection:
    """A connection that belongs to one run at a time."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.process = os.getpid()
        # Only this user can enter the directory, whatever the mode of DuckDB's files. It is removed with the connection.
        spills = tempfile.mkdtemp(prefix="omnigraph-duckdb-")
        self._remove_spills = weakref.finalize(self, remove_spills, spills, self.process)
        self.duck = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{memory}B",
                "threads": os.cpu_count() or 1,
                "temp_directory": spills,
                # A name in a query never means a Python variable or a file, and no extension is downloaded.
                "python_enable_replacements": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        # In an interactive program such as a notebook, DuckDB would print a progress bar into the output.
        self.duck.execute("SET enable_progress_bar = false")
        self.reader: pa.RecordBatchReader | None = None
        """The unread rows of the last query: they must be freed before the database is."""
        self._is_open = True
        _open.add(self)

    def interrupt(self) -> None:
        """Interrupt the running query, from any thread."""
        if self.is_mine():
            with suppress(duckdb.ConnectionException):  # closed meanwhile
                self.duck.interrupt()

    def close(self) -> None:
        """Close the database."""
        with PendingWork():
            with _lock:
                is_first, self._is_open = self.is_mine(), False
            if is_first:
                _open.discard(self)
                self.drain()
                with suppress(duckdb.Error):  # it is still busy with what cannot be interrupted
                    self.duck.close()
                self._remove_spills()

    def drain(self) -> None:
        """Interrupt the query, and discard its unread rows.

        Reading them waits for the threads that produce them. Dropping the reader does not wait, and these threads crash.
        """
        reader, self.reader = self.reader, None
        self.duck.interrupt()
        # The rows are discarded, so any error is as well.
        with suppress(Exception):
            while reader is not None:
                reader.read_next_batch()

    def is_mine(self) -> bool:
        """True if this process can use it: a forked child does not have the threads of the database."""
        return self._is_open and self.process == os.getpid()


class ConnectionPool:
    """Pool of idle connections: opening one takes longer than running a small query."""

    def __init__(self) -> None:
        self._idle: Pool[int, Connection] = Pool(_IDLE, Connection.close)

    def take(self, memory: int) -> Connection:
        """Return an idle or new connection with this memory limit."""
        return self._idle.take(memory, Connection.is_mine) or Connection(memory)

    def give(self, connection: Connection) -> None:
        """Return a connection to the pool."""
        self._idle.give(connection.memory, connection)


IDLE = ConnectionPool()
"""The pool of this process. A connection holds nothing of a graph when it is given back."""


@at_shutdown(Stage.CONNECTIONS)
def _close_all() -> None:
    """Close all connections: a database thread that enters Python while the interpreter shuts down crashes the process."""
    _wait()
    for connection in list(_open):
        connection.close()
    _wait()


def _wait() -> None:
    until = time.monotonic() + _EXIT_SECONDS
    while pending_work() and time.monotonic() < until:
        time.sleep(0.001)
