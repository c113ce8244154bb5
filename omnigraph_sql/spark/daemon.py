"""The process that Spark forks its Python workers from, with our packages imported already.

Each step of a query that calls our functions has workers of its own. To import the packages takes each of them longer than
most of what they are asked. Importing starts no thread that a fork would miss; what does is done in the workers.

A worker looks for garbage after every task, among everything that was ever imported, which can take as long as a small
task: what is there before the fork is left out of that.

Java and a worker tell each other many short things at the beginning and the end of a task. TCP keeps each of them back until
the one before was acknowledged, and acknowledges after 40 milliseconds unless it is told that somebody waits.
"""

from __future__ import annotations

import gc
import socket
import warnings

import pyspark.daemon
import pyspark.worker

import omnigraph_sql.engines.spark.working
import omnigraph_sql.spark.reading
import omnigraph_sql.spark.writing  # noqa: F401

_run_task = pyspark.daemon.worker
_AT_ONCE = [getattr(socket, name) for name in ("TCP_NODELAY", "TCP_QUICKACK") if hasattr(socket, name)]
"""The second one is Linux's; it holds for a while, and is set for each task."""


def _run_at_once(sock: socket.socket, authenticated: bool) -> int:
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        for option in _AT_ONCE:
            sock.setsockopt(socket.IPPROTO_TCP, option, 1)
    return _run_task(sock, authenticated)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    pyspark.daemon.worker = _run_at_once
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
