"""The process that warm processes are forked from: `python -m tests.warm.server ADDRESS`.

It loads what commands import, and runs nothing of Lance itself, which is what makes forking it safe. It ends when its
standard input does.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import warnings
from importlib import import_module
from typing import NoReturn

MODULES = (
    "datafusion",
    "duckdb",
    "lance",
    "scipy.sparse",
    "sqlglot",
    "yaml",
    "omnigraph_compiler.linter",
    "omnigraph_sql.cli.app",
    "omnigraph_sql.cli.shell.start",
    "omnigraph_sql.engines.datafusion.engine",
    "omnigraph_sql.engines.duckdb.engine",
    "omnigraph_sql.engines.duckdb.statements",
    "omnigraph_sql.graph",
    "omnigraph_sql.pipeline.local",
    "omnigraph_udfs.kernels.ranking",
)


def main() -> None:
    for name in MODULES:
        import_module(name)
    gc.collect()
    gc.freeze()  # forks do not look through everything that was imported
    warnings.simplefilter("ignore")  # Lance warns of every fork
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        os.write(1, b"ready\n")
        while True:
            readable, _, _ = select.select([listener.fileno(), 0], [], [])
            if 0 in readable:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _attend(connection)
            connection.close()
            _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _attend(connection: socket.socket) -> None:
    """Run one command in a fork of this fork, and report its status to the client. Returns in the fork that runs it only."""
    head, streams, _, _ = socket.recv_fds(connection, 8, 3)
    size, text = int.from_bytes(head, "big"), b""
    while len(text) < size:
        text += connection.recv(size - len(text))
    words, directory, environment, umask = json.loads(text)
    pid = os.fork()
    if pid:
        for stream in streams:
            os.close(stream)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(str(status).encode())
        os._exit(0)
    connection.close()
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.umask(umask)
    os.chdir(bytes.fromhex(directory))
    os.environb.clear()
    os.environb.update({bytes.fromhex(name): bytes.fromhex(value) for name, value in environment})
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.resetwarnings()
    _run([os.fsdecode(bytes.fromhex(word)) for word in words])


def _run(words: list[str]) -> NoReturn:
    from ogsql import main as start

    sys.argv = ["ogsql", *words]
    # The streams of the server may be pipes, which have no position, where those of the command are files.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (they live as long as the process)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    start()


if __name__ == "__main__":
    main()
