"""Rows of a statement that a child process runs."""

from __future__ import annotations

import threading
from collections import deque

import pyarrow as pa

from omnigraph_sql.errors import BadRequest, Internal
from omnigraph_sql.isolation import wire
from omnigraph_sql.isolation.pool import ProcessPool
from omnigraph_sql.isolation.process import EngineProcess, ProcessEnded
from omnigraph_sql.runtime.execution import RunClock

_READ_AHEAD_ROWS = 8192
_GRACE_SECONDS = 1.0
"""The time that the process has after its timeout to report it, before it is killed."""
_SPENT = ("ResourceLimit", "Internal")
"""Errors after which a process may still be busy or hold much memory, so that it is not used again."""


class IsolatedRows:
    """The batches of a statement in order, once. A process whose rows are not read to the end is killed."""

    def __init__(self, pool: ProcessPool, request: wire.IsolatedRequest, spent: float = 0.0) -> None:
        self._pool = pool
        self._limits = request.limits
        self._clock = RunClock(request.limits.timeout, spent)
        self._ready: deque[pa.RecordBatch] = deque()
        self._lock = threading.Lock()
        self._is_cancelled = False
        self.is_done = False
        payload = wire.packed_request(request)
        self._process: EngineProcess | None = pool.take()
        try:
            self.schema = self._begin(payload)
            while not self.is_done and sum(batch.num_rows for batch in self._ready) < _READ_AHEAD_ROWS:
                self._read()
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        self.close()

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch; None after the last."""
        while not self._ready and not self.is_done:
            try:
                self._read()
            except BaseException:
                self.close()
                raise
        return self._ready.popleft() if self._ready else None

    def cancel(self) -> None:
        """Kill the process, from any thread."""
        self._is_cancelled = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Kill the process unless its statement has ended, and release its resources."""
        self.is_done = True
        getattr(self, "_ready", deque()).clear()
        process = self._take_process()
        if process is not None:
            self._pool.discard(process)

    def _take_process(self) -> EngineProcess | None:
        """Return the process to the first caller, None to others."""
        with self._lock:
            process, self._process = getattr(self, "_process", None), None
            return process

    def _begin(self, payload: bytes) -> pa.Schema:
        assert self._process is not None
        try:
            self._process.send(payload)
        except ProcessEnded:
            raise self._process.error_for_exit(self._limits) from None
        kind, schema = self._message()
        if kind != wire.SCHEMA:
            raise Internal("the engine process did not say which columns there are", hint="please report it")
        return pa.ipc.read_schema(pa.py_buffer(schema))

    def _read(self) -> None:
        kind, payload = self._message()
        if kind == wire.BATCH:
            self._ready.extend(wire.read_batches(payload))
            return
        self.is_done = True
        process = self._take_process()
        if process is not None:
            self._pool.give(process)

    def _message(self) -> tuple[bytes, bytearray]:
        process = self._process
        if self._is_cancelled or process is None:
            raise BadRequest("the query was cancelled", hint="run it again")
        remaining = self._clock.remaining
        try:
            with self._clock.running():
                kind, payload = process.receive(None if remaining is None else remaining + _GRACE_SECONDS, self._limits)
        except TimeoutError:
            raise self._clock.error_for_timeout() from None
        except ProcessEnded:
            if process.is_killed:
                raise BadRequest("the query was cancelled", hint="run it again") from None
            raise process.error_for_exit(self._limits) from None
        if kind != wire.ERROR:
            return kind, payload
        error = wire.read_error(payload)
        if type(error).__name__ not in _SPENT:
            taken = self._take_process()
            if taken is not None:
                self._pool.give(taken)
        raise error
