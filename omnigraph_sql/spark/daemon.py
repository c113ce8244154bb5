"""The daemon from which Spark forks its Python workers, with our packages imported before the fork.

Each step of a query that calls our functions has its own workers, and importing the packages would take most of their tasks
longer than the work itself. Imports must start no thread, because a fork would lose it; threads start in the workers.

A worker collects garbage after every task, over all imported objects, which can take as long as a small task. Objects from
before the fork are frozen, so the collector skips them.

Java and a worker exchange many short messages at the beginning and the end of a task. By default TCP delays each message
until the one before is acknowledged, and delays acknowledgements by 40 milliseconds. The sockets turn off both delays.
"""

from __future__ import annotations

import gc
import socket
import warnings

import pyspark.daemon
import pyspark.worker

import omnigraph_sql.engines.spark.worker
import omnigraph_sql.spark.reader
import omnigraph_sql.spark.writer  # noqa: F401

_run_task = pyspark.daemon.worker
_NO_DELAY_OPTIONS = [getattr(socket, name) for name in ("TCP_NODELAY", "TCP_QUICKACK") if hasattr(socket, name)]
"""`TCP_QUICKACK` exists on Linux only. The kernel resets it, so each task sets it again."""


def _run_without_delay(sock: socket.socket, authenticated: bool) -> int:
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        for option in _NO_DELAY_OPTIONS:
            sock.setsockopt(socket.IPPROTO_TCP, option, 1)
    return _run_task(sock, authenticated)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    pyspark.daemon.worker = _run_without_delay
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
