"""Sparks of more than one process, started by tests on loopback addresses and ended by them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE = 240
"""Seconds that something may take which is sure to come."""
ROOT = Path(__file__).parent.parent.parent


def environment(address: str = "127.0.0.1") -> dict[str, str]:
    """What processes of a cluster are given: this Python, these packages, and an address of this machine."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    packages = [str(ROOT), str(ROOT / "compiler"), str(ROOT / "udfs"), *filter(None, [found.get("PYTHONPATH")])]
    return found | {
        "PYTHONPATH": os.pathsep.join(packages),
        "PYTHONWARNINGS": "ignore::FutureWarning",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": address,
        "SPARK_DAEMON_MEMORY": "512m",
    }


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def eventually(is_so: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until, f"waited in vain: {what}"
        time.sleep(0.1)


@contextmanager
def process(command: Sequence[str], log: Path, sign: str, address: str = "127.0.0.1") -> Iterator[int]:
    """A process that says a sign in its log once it is there."""
    with log.open("w") as out:
        started = subprocess.Popen(
            command, env=environment(address), cwd=log.parent, stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
    try:

        def is_there() -> bool:
            assert started.poll() is None, f"{command[1:]} ended:\n{log.read_text()}"
            return sign in log.read_text()

        eventually(is_there, f"{sign} in {log.read_text()}")
        yield started.pid
    finally:
        started.terminate()
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.send_signal(signal.SIGKILL)
            started.wait()


@contextmanager
def standalone(place: Path) -> Iterator[str]:
    """A master with two workers of one core each. They have addresses of their own, as on two machines."""
    place.mkdir(parents=True, exist_ok=True)
    spark_class, port = str(SPARK_HOME / "bin" / "spark-class"), free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        command = [spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        running.enter_context(process([*command, "--webui-port", "0"], place / "master.log", "New state: ALIVE"))
        for number in (1, 2):
            address = f"127.0.0.{number}"
            command = [spark_class, "org.apache.spark.deploy.worker.Worker", "--host", address, "--cores", "1"]
            command += ["--memory", "1500M", "--webui-port", "0", "--work-dir", str(place / f"work-{number}"), master]
            log = place / f"worker-{number}.log"
            running.enter_context(process(command, log, "Successfully registered with master", address))
        yield master


@contextmanager
def connect_server(place: Path) -> Iterator[str]:
    """A server of Spark Connect."""
    place.mkdir(parents=True, exist_ok=True)
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(place / "local"),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    with process([*command, "spark-internal"], place / "server.log", "Spark Connect server started at"):
        yield f"sc://127.0.0.1:{port}"


def run(arguments: Sequence[str], place: Path, **more: str) -> str:
    """Run a program to its end: what it says on its standard output."""
    place.mkdir(parents=True, exist_ok=True)
    told = environment() | more
    done = subprocess.run(arguments, env=told, cwd=place, capture_output=True, text=True, check=False, timeout=2 * PATIENCE)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout
