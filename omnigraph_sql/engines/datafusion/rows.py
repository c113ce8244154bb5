"""Rows of DataFusion for the streams of the runtime."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from omnigraph_sql.engines.datafusion.inline_event_loop import InlineEventLoop
from omnigraph_sql.runtime.streams import Fetched, PendingBatches, Portion


class DataFusionRows:
    """The rows of a stream of DataFusion."""

    is_interruptible = True

    def __init__(self, source: Any) -> None:
        self._source = source

    def submit(self, portion: Portion) -> PendingBatches[Fetched]:
        """Return a request whose `result` awaits the batches in the calling thread."""
        return _PendingBatches(self._source, portion)

    def fetch(self, portion: Portion) -> Fetched:
        """Fetch batches in the calling thread."""
        batches: list[pa.RecordBatch] = []
        is_enough = portion.new_counter()
        for batch in self._source:
            batches.append(batch.to_pyarrow())
            if is_enough(batches[-1]):
                return batches, False
        return batches, True

    def close(self) -> None:
        """Drop the stream, which stops the query."""
        self._source = None


class _PendingBatches:
    """Batches of a stream, awaited in the thread that calls `result`."""

    def __init__(self, source: Any, portion: Portion) -> None:
        self._source = source
        self._portion = portion
        self._loop = InlineEventLoop()

    def result(self, timeout: float | None = None) -> Fetched:
        until = None if timeout is None else time.perf_counter() + timeout
        batches: list[pa.RecordBatch] = []
        is_enough = self._portion.new_counter()
        while True:
            try:
                batch = self._loop.wait(self._source.__anext__(), until)
            except StopAsyncIteration:
                return batches, True
            batches.append(batch.to_pyarrow())
            if is_enough(batches[-1]):
                return batches, False

    def cancel(self) -> None:
        self._loop.cancel()
        self._source = None
