"""Spark sessions that are set up for graphs: UTC, Arrow, filters that reach the tables, and quiet."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph_sql.engines.spark.java import ensure_java
from omnigraph_sql.errors import Configuration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.python.filterPushdown.enabled": "true",
}
"""What reading and writing graphs relies on, in every session."""
LOCAL: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "4",
    "spark.hadoop.fs.defaultFS": "file:///",
}
"""What suits one machine that only this process uses."""
# Without an appender Spark takes the file for missing, and reads its own. The gateway of Python would announce that it logs
# more than the rest.
_SILENCE = """\
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
appender.none.type = Null
appender.none.name = none
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""
_NOISY = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def require_pyspark() -> None:
    """Raise if PySpark is not installed."""
    try:
        with quiet_import():
            import_module("pyspark.sql")
    except ImportError:
        text = "Spark needs the package `pyspark`, which is not installed"
        raise Configuration(text, what="pyspark", hint="run pip install 'omnigraph-sql[spark]'") from None


@contextmanager
def quiet_import() -> Iterator[None]:
    """PySpark warns about newer versions of pandas when it is imported, and when it first makes use of one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def require_connect() -> None:
    """Raise if the packages are not installed that Spark Connect needs beside PySpark."""
    for name in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        try:
            import_module(name)
        except ImportError:
            text = f"Spark Connect needs the package `{name}`, which is not installed"
            raise Configuration(text, what=name, hint="run pip install 'omnigraph-sql[spark-connect]'") from None


def running_session() -> SparkSession:
    """The Spark session that is there already, as it is; else a new one, as `session` makes it."""
    require_pyspark()
    return _running() or session()


def _running() -> SparkSession | None:
    """The session of this process, whichever thread made it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession, is_remote

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    # In another thread than the one that made it, a session is there and is not the active one.
    if is_remote():
        with suppress(RuntimeError):
            return SparkSession.active()
        return None
    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


def session(
    master: str | None = None, *, app_name: str = "omnigraph", config: Mapping[str, Any] | None = None
) -> SparkSession:
    """A Spark session that reads and writes graphs, or the one that is running already.

    `master` is `local[2]`, `spark://HOST:PORT` and the like, or `sc://HOST:PORT` for a server of Spark Connect. Without it
    what `spark-submit`, SPARK_REMOTE or MASTER say holds, else this machine with all its cores. `config` adds settings.
    """
    require_pyspark()
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\..*")
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    running = _running()
    # A server has settings of its own that its clients cannot set; these are those that they can.
    builder = _new_builder(master) if running is None else type(running).builder
    builder = builder.appName(app_name)
    settings = dict(SETTINGS)
    if running is None and _is_here(master):
        settings |= _here()
    for key, value in (settings | dict(config or {})).items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # To start Java this process is forked, which Lance warns of; the child becomes another program at once.
        warnings.simplefilter("ignore")
        return builder.getOrCreate()


def _new_builder(master: str | None) -> Any:
    """What makes the first session of this process."""
    from pyspark.sql import SparkSession

    remote = _remote(master)
    if remote is not None:
        require_connect()
    if remote is None or remote.startswith("local"):
        ensure_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = _chosen(master)
    if remote is not None:
        return SparkSession.builder.remote(remote)
    return SparkSession.builder if chosen is None else SparkSession.builder.master(chosen)


def _remote(master: str | None) -> str | None:
    """The address for Spark Connect, if that is asked for; one that begins with `local` starts a server of its own."""
    if master is not None:
        return master if master.startswith("sc://") else None
    return os.environ.get("SPARK_REMOTE") or None


def _chosen(master: str | None) -> str | None:
    """Where Spark runs; None if whoever started this program has said so."""
    return master or os.environ.get("MASTER") or (None if _is_submitted() else "local[*]")


def _is_here(master: str | None) -> bool:
    """Whether everything runs on this machine."""
    return (_remote(master) or _chosen(master) or "").startswith("local")


def _here() -> dict[str, str]:
    """Settings of a Spark on this machine, which is quiet and leaves nothing behind."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")
    os.environ.setdefault("SPARK_CONF_DIR", str(_quiet_conf()))
    scratch = _scratch()
    settings = dict(LOCAL)
    if os.environ["PYSPARK_PYTHON"] == sys.executable:
        settings["spark.python.daemon.module"] = "omnigraph_sql.spark.daemon"
    return settings | {"spark.sql.warehouse.dir": str(scratch / "warehouse"), "spark.local.dir": str(scratch / "local")}


def _is_submitted() -> bool:
    """Whether `spark-submit` started this program, and so has said where it runs."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@cache
def _scratch() -> Path:
    made = Path(tempfile.mkdtemp(prefix="omnigraph-spark-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@cache
def _quiet_conf() -> Path:
    made = _scratch() / "conf"
    made.mkdir()
    (made / "log4j2.properties").write_text(_SILENCE)
    return made
