"""What a foreign table is to the rest, and what one statement does with such tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from omnigraph_sql.engines.execution import Execution
from omnigraph_sql.errors import OmnigraphError


@dataclass(frozen=True)
class Asked:
    """A statement that goes to another database for a foreign table."""

    table: str
    sql: str


class Reading:
    """One statement's use of foreign tables: what it asks their sources, how many rows it wants, and what went wrong.

    Engines read from several threads, and a run is stopped from another.
    """

    def __init__(self) -> None:
        self.limits: Mapping[str, int] = {}
        """How many rows are enough for every time a table is read; those of a table that is missing here are all wanted."""
        self.is_remote = False
        """Whether another database is asked in SQL."""
        self.is_ours = False
        """Whether the session that reads has our settings, and not those of somebody else."""
        self.files: dict[str, Foreign] = {}
        """The tables made of files that the statement may read, by name."""
        self.asked: dict[Asked, None] | None = None
        """What is asked, in order, as a set; None where nobody wants to know, as in a session that goes on for long."""
        self.going: Callable[[], None] = _always
        """Raises if the statement was stopped."""
        self.failed: Callable[[OmnigraphError], None] = _ignored
        """Is told what a source raised: engines pass on its text only."""
        self._running: dict[int, Callable[[], None]] = {}
        self._lock = threading.Lock()

    @property
    def lasts(self) -> bool:
        """Whether it goes on for more than a statement."""
        return self.asked is None

    def follow(self, execution: Execution) -> None:
        """Belong to a run: it is stopped with the run, and fails it."""
        self.asked = {}
        self.going, self.failed, execution.on_stop = execution.going, execution.fail, self.stop

    @contextmanager
    def stopping(self, cancel: Callable[[], None]) -> Iterator[None]:
        """What is read inside is cancelled if the statement is stopped."""
        with self._lock:
            self._running[id(cancel)] = cancel
        try:
            self.going()
            yield
        finally:
            with self._lock:
                del self._running[id(cancel)]

    def stop(self) -> None:
        """Cancel whatever is asked of other databases."""
        with self._lock:  # nobody is cancelled any more who has left
            for cancel in self._running.values():
                cancel()


def _always() -> None:
    return None


def _ignored(_error: OmnigraphError) -> None:
    return None


class Foreign(Protocol):
    """A table that lives outside the graph. Rows are read when a statement needs them."""

    @property
    def name(self) -> str:
        """How SQL names it."""

    @property
    def kind(self) -> str:
        """Where it lives: `parquet`, `csv`, `arrow`, `postgres` or `duckdb`."""

    @property
    def shown(self) -> str:
        """Its address for people, without passwords."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns, as they were when it was registered."""

    @property
    def last_sql(self) -> str | None:
        """What its source was asked last; None if it is not asked in SQL, or was not asked yet."""

    def provider(self, reading: Reading) -> Any:
        """What a schema of DataFusion returns for it."""

    def expose(self, connection: Any, schema: str, name: str, reading: Reading) -> None:
        """Make it a view of a DuckDB connection, in a schema of its current database."""


@dataclass(frozen=True)
class ForeignTable:
    """A foreign table as `Graph.foreign` lists it."""

    name: str
    kind: str
    source: str
    """Its address, without passwords."""
    schema: pa.Schema
    last_sql: str | None
    """What its source was asked last, if it is a database."""
