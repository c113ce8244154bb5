"""Statements on DuckDB that are taken for short, and are not: they begin anew where they can be stopped."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from omnigraph_sql.engines.duckdb.connections import Connection
from omnigraph_sql.engines.duckdb.engine import DuckDBRows
from omnigraph_sql.engines.duckdb.watchdog import WatchedWork
from omnigraph_sql.errors import BadRequest, ResourceLimit
from omnigraph_sql.runtime.execution import Execution, RunClock, RunSettings
from omnigraph_sql.runtime.limits import run_limits
from omnigraph_sql.runtime.streams import BatchStream, Portion

ENDLESS = "select count(*) as n from range(1000000000) a, range(1000000000) b where a.range % 7 = b.range % 5"
QUICK = "select 42 as n"


class Run:
    """Texts to run on a connection, one each time it begins. It claims to be short."""

    batch_rows = 2048

    def __init__(self, connection: Connection, *texts: str) -> None:
        self.connection = connection
        self.texts = list(texts)
        self.threads: list[threading.Thread] = []

    def is_short(self) -> bool:
        return True

    def begin(self, _: Execution) -> pa.RecordBatchReader:
        self.threads.append(threading.current_thread())
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return self.connection.duck.sql(text).to_arrow_reader(self.batch_rows)

    def finished(self) -> None:
        """The connection is the test's."""


@pytest.fixture
def connection() -> Connection:
    """Closed by the thread that works with it, where something stops that, or with the process."""
    return Connection(1 << 28)


@pytest.fixture
def keyboard() -> Iterator[None]:
    """The driver of Postgres, which other tests import, keeps interrupts from those who wait for a lock."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def stream(run: Run, timeout: float | None = None) -> BatchStream:
    execution = Execution(RunSettings(limits=run_limits(timeout), batch_rows=run.batch_rows), RunClock(timeout))
    execution.begin()
    return BatchStream(DuckDBRows(run, execution), run, execution, lambda batch: batch)


def test_what_is_short_runs_in_the_thread_that_asks(connection: Connection) -> None:
    run = Run(connection, QUICK)
    rows = stream(run)
    rows.read_ahead(Portion(1))

    assert run.threads == [threading.current_thread()]
    assert rows.next().to_pylist() == [{"n": 42}]  # type: ignore[union-attr]


def test_what_is_not_begins_anew_in_another(connection: Connection) -> None:
    run = Run(connection, ENDLESS, QUICK)
    rows = stream(run)
    rows.read_ahead(Portion(1))

    assert rows.next().to_pylist() == [{"n": 42}]  # type: ignore[union-attr]
    assert [each is threading.current_thread() for each in run.threads] == [True, False]


def test_its_time_can_be_over(connection: Connection) -> None:
    with pytest.raises(ResourceLimit, match=r"within 0\.5 seconds"):
        stream(Run(connection, ENDLESS), timeout=0.5).read_ahead(Portion(1))


@pytest.mark.parametrize("seconds", [0.01, 0.6])
def test_it_can_be_cancelled(connection: Connection, seconds: float) -> None:
    rows = stream(Run(connection, ENDLESS))
    timer = threading.Timer(seconds, rows.cancel)
    timer.start()
    with pytest.raises(BadRequest, match="cancelled"):
        rows.read_ahead(Portion(1))
    timer.join()


@pytest.mark.usefixtures("keyboard")
@pytest.mark.parametrize("seconds", [0.03, 0.6])
def test_it_can_be_interrupted(connection: Connection, seconds: float) -> None:
    timer = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT])
    rows = stream(Run(connection, ENDLESS))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        rows.read_ahead(Portion(1))


def test_only_what_is_watched_is_stopped(connection: Connection) -> None:
    """However close the end of the one is to the moment at which it is late, the next on that connection is not met."""
    last = None
    for number in range(60):
        watched = WatchedWork(connection.interrupt, 0.001)
        text = f"select sum(range) from range({number * 500_000})"
        try:
            with watched:
                connection.duck.execute(text).fetchall()
        except Exception:
            assert watched.is_late
        until = time.monotonic() + 0.03
        while time.monotonic() < until:
            last = connection.duck.execute("select count(*) from range(300000)").fetchall()
        watched.stop()
        assert connection.duck.execute("select count(*) from range(3000000)").fetchall() == [(3_000_000,)]
    assert last == [(300_000,)]
