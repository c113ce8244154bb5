"""Arrow streams that are serialized while they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


class _Chunks:
    """A writable file whose bytes are consumed piece by piece."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    close = flush


def stream(rows: pa.RecordBatchReader) -> Iterator[bytes]:
    """Yield the bytes of an Arrow stream."""
    chunks = _Chunks()
    with pa.PythonFile(chunks, mode="w") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
            yield chunks.take()
    yield chunks.take()
