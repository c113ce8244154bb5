"""Foreign tables as the other rooms see them, and the state of one statement's reads of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.runtime.execution import Execution


@dataclass(frozen=True)
class RemoteStatement:
    """A statement sent to another database to read a foreign table."""

    table: str
    sql: str


class ForeignRead:
    """The reads of foreign tables by one statement: limits, remote statements, cancellation and errors.

    Engines read from several threads, and a run is cancelled from another.
    """

    def __init__(self) -> None:
        self.limits: Mapping[str, int] = {}
        """The number of rows that each scan of a table needs; a table without an entry is read to its end."""
        self.is_remote = False
        """True if the statement reads a remote database."""
        self.is_own_session = False
        """True if the session was created by this package; a session of the caller may have other settings."""
        self.files: dict[str, ForeignSource] = {}
        """The tables over files that the statement may read, by name."""
        self.statements: dict[RemoteStatement, None] | None = None
        """The remote statements in order, as a set; None in a session, which does not record them."""
        self.check_cancelled: Callable[[], None] = _always
        """Raises if the statement was cancelled."""
        self.report_error: Callable[[OmnigraphError], None] = _ignored
        """Receives the error of a source: engines pass on only its text."""
        self._running: dict[int, Callable[[], None]] = {}
        self._lock = threading.Lock()

    @property
    def is_session(self) -> bool:
        """True if it covers all statements of a session."""
        return self.statements is None

    def follow(self, execution: Execution) -> None:
        """Join a run: cancelling the run cancels the reads, and an error of a source fails the run."""
        self.statements = {}
        self.check_cancelled, self.report_error = execution.check_cancelled, execution.fail
        execution.call_on_stop(self.stop)

    @contextmanager
    def stopping(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Call `cancel` if the statement is cancelled during the block."""
        with self._lock:
            self._running[id(cancel)] = cancel
        try:
            self.check_cancelled()
            yield
        finally:
            with self._lock:
                del self._running[id(cancel)]

    def stop(self) -> None:
        """Cancel the running remote statements."""
        with self._lock:  # a reader that has left its block must not be cancelled any more
            for cancel in self._running.values():
                cancel()


def _always() -> None:
    return None


def _ignored(_error: OmnigraphError) -> None:
    return None


class ForeignSource(Protocol):
    """A table outside of the graph, whose rows are read when a statement needs them.

    `engines/datafusion/foreign.py` and `engines/duckdb/foreign_views.py` read each kind of source.
    """

    @property
    def name(self) -> str:
        """Its name in SQL."""

    @property
    def kind(self) -> str:
        """The kind of the source: `parquet`, `csv`, `arrow`, `postgres` or `duckdb`."""

    @property
    def shown(self) -> str:
        """Its address without passwords."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns at the time of its registration."""

    @property
    def last_sql(self) -> str | None:
        """The last SQL statement sent to its source; None if there was none."""


@dataclass(frozen=True)
class ForeignTable:
    """A foreign table as `Graph.foreign` lists it."""

    name: str
    """The name in SQL."""
    kind: str
    """`parquet`, `csv`, `arrow`, `postgres` or `duckdb`."""
    source: str
    """Its address, without passwords."""
    schema: pa.Schema
    """Names and types of its columns."""
    last_sql: str | None
    """The last SQL statement sent to its source; None if there was none."""
