"""The child process of isolated statements: `python -m omnigraph_sql.statement_server FD DIRECTORY`.

It keeps its temporary files in the directory, only reads the graph, and limits its address space to the memory of the
statement. It ends when the socket to its parent is closed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

from omnigraph_sql.embeddings import Role
from omnigraph_sql.embeddings.vectors import Vectors
from omnigraph_sql.errors import Configuration, OmnigraphError
from omnigraph_sql.graph import Graph, connect
from omnigraph_sql.isolation import wire

SLACK_BYTES = 1 << 30
"""Address space in addition to the memory of a statement: stacks, mapped files, and caches of allocators."""
SLACK_BYTES_PER_PROCESSOR = 128 << 20
_BATCH_BYTES = 8 << 20


def main(arguments: list[str]) -> None:
    """Run statements until the parent has ended."""
    channel, directory = socket.socket(fileno=int(arguments[0])), Path(arguments[1])
    _prefer_for_oom_kill()
    from omnigraph_sql.interrupt_safe_import import import_whole

    import_whole("datafusion")
    import_whole("lance")
    requests: SimpleQueue[wire.IsolatedRequest] = SimpleQueue()
    threading.Thread(target=_listen, args=(channel, requests, directory), name="omnigraph-listen", daemon=True).start()
    server = StatementServer(channel)
    wire.send(channel, wire.READY)
    while True:
        try:
            server.serve(requests.get())
        except ConnectionError:
            _exit(directory)


class StatementServer:
    """Runs the statements of one parent, and caches its open graphs."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._graphs: dict[tuple[str, str | None], Graph] = {}

    def serve(self, request: wire.IsolatedRequest) -> None:
        """Run a statement, and send its rows or an error."""
        try:
            _limit_address_space(request.limits.memory)
            self._run(request)
        except ConnectionError:
            raise
        except MemoryError as error:
            self._fail(_error_for_memory(request, error))
        except BaseException as error:
            self._fail(error)

    def _run(self, request: wire.IsolatedRequest) -> None:
        with self._graph(request)._sql.sessions.answer(request) as result:
            wire.send(self._channel, wire.SCHEMA, memoryview(result.schema.serialize()))
            for batch in result:
                rows = max(1, batch.num_rows * _BATCH_BYTES // max(batch.nbytes, 1))
                for at in range(0, batch.num_rows, rows):
                    wire.send(self._channel, wire.BATCH, wire.packed_batch(batch.slice(at, rows)))
        wire.send(self._channel, wire.END)

    def _graph(self, request: wire.IsolatedRequest) -> Graph:
        key = request.uri, request.embedder
        if key not in self._graphs:
            embedder = _UnavailableEmbedder() if request.embedder == wire.ELSEWHERE else request.embedder
            self._graphs[key] = connect(request.uri, read_only=True, embedder=embedder)
        graph = self._graphs[key]
        if graph.catalog.schema_hash != request.schema_hash:
            graph.refresh()
        graph.use_queries(*request.files)
        for registered in graph.foreign():
            graph.unregister(registered.name)
        for table in request.foreign:
            graph.register(table.name, table.source, **table.options)
        return graph

    def _fail(self, error: BaseException) -> None:
        wire.send(self._channel, wire.ERROR, wire.packed_error(error))


class _UnavailableEmbedder:
    """Stands for an embedder that is an object of the parent."""

    provider = model = "elsewhere"

    def embed(self, texts: Sequence[str], *, dimension: int, role: Role = "document") -> Vectors:  # noqa: ARG002
        text = "the embedder is an object of the process that asks, and an isolated statement has none"
        raise Configuration(text, what="embedder", hint="give vectors instead of texts, or name a provider")


def _error_for_memory(request: wire.IsolatedRequest, error: MemoryError) -> BaseException:
    from omnigraph_sql.runtime.execution import Execution, RunClock, RunSettings

    execution = Execution(RunSettings(limits=request.limits), RunClock(None))
    return execution.error_for_memory(request.limits.memory).with_traceback(error.__traceback__)


def _listen(channel: socket.socket, requests: SimpleQueue[wire.IsolatedRequest], directory: Path) -> None:
    """Receive requests; exit when the socket is closed, because the parent has ended then."""
    try:
        while (message := wire.receive(channel)) is not None:
            try:
                requests.put(wire.read_request(message[1]))
            except OmnigraphError as error:  # no other message is sent meanwhile: the parent sends one request at a time
                wire.send(channel, wire.ERROR, wire.packed_error(error))
    finally:
        _exit(directory)


def _exit(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    os._exit(0)


def _prefer_for_oom_kill() -> None:
    """Let the kernel kill this process before its parent if memory runs out, and disable core dumps."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_address_space(memory: int) -> None:
    """Limit the address space to its current size plus `memory` and slack, on systems with such a limit."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    except (ImportError, OSError, ValueError):
        return
    size = pages * resource.getpagesize() + memory + SLACK_BYTES + SLACK_BYTES_PER_PROCESSOR * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


if __name__ == "__main__":
    main(sys.argv[1:])
