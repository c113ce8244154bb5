"""Spark sessions configured for graphs: UTC, Arrow, filter push-down, and no log output."""

from __future__ import annotations

import logging
import os
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
from omnigraph_sql.runtime.shutdown import remove_at_shutdown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.python.filterPushdown.enabled": "true",
}
"""Settings that reading and writing graphs requires."""
LOCAL: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "4",
    "spark.hadoop.fs.defaultFS": "file:///",
}
"""Settings for Spark on this machine, used by this process alone."""
# Without an appender, Spark ignores the file and reads its own. The gateway of Python logs at another level than the rest.
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
    """Ignore the warnings about newer versions of pandas that PySpark emits at its import and its first use of pandas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def require_connect() -> None:
    """Raise if a package that Spark Connect needs beside PySpark is not installed."""
    for name in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        try:
            import_module(name)
        except ImportError:
            text = f"Spark Connect needs the package `{name}`, which is not installed"
            raise Configuration(text, what=name, hint="run pip install 'omnigraph-sql[spark-connect]'") from None


def running_session() -> SparkSession:
    """Return the running Spark session unchanged, else a new one from `session`."""
    require_pyspark()
    return _existing_session() or session()


def _existing_session() -> SparkSession | None:
    """Return the session of this process, whichever thread created it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession, is_remote

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    # A session is active only in the thread that created it.
    if is_remote():
        with suppress(RuntimeError):
            return SparkSession.active()
        return None
    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


def session(
    master: str | None = None, *, app_name: str = "omnigraph", config: Mapping[str, Any] | None = None
) -> SparkSession:
    """Open a Spark session that reads and writes graphs, or return the one that is running already.

    Args:
        master: `local[2]`, `spark://HOST:PORT` and the like, or `sc://HOST:PORT` for a server of Spark Connect. Without it
            the settings of `spark-submit`, SPARK_REMOTE or MASTER apply, else this machine with all its cores.
        app_name: the name of the application.
        config: further settings of Spark.

    Returns:
        The session.

    Raises:
        Configuration: the package `pyspark` or Java is not installed.

    Example:
        >>> spark = og.spark.session("local[2]")
        >>> spark.read.format("omnigraph").option("type", "Port").load(graph.uri).count()
        2
    """
    require_pyspark()
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\..*")
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    running = _existing_session()
    # A client can set only some of the settings of a Spark Connect server; these are among them.
    builder = _new_builder(master) if running is None else type(running).builder
    builder = builder.appName(app_name)
    settings = dict(SETTINGS)
    if running is None and _is_local(master):
        settings |= _local_settings()
    for key, value in (settings | dict(config or {})).items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # Starting Java forks this process, which Lance warns about; the child calls exec at once.
        warnings.simplefilter("ignore")
        return builder.getOrCreate()


def _new_builder(master: str | None) -> Any:
    """Return a builder for the first session of this process."""
    from pyspark.sql import SparkSession

    remote = _remote(master)
    if remote is not None:
        require_connect()
    if remote is None or remote.startswith("local"):
        ensure_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = _master_url(master)
    if remote is not None:
        return SparkSession.builder.remote(remote)
    return SparkSession.builder if chosen is None else SparkSession.builder.master(chosen)


def _remote(master: str | None) -> str | None:
    """Return the address for Spark Connect, or None; an address that begins with `local` starts a server."""
    if master is not None:
        return master if master.startswith("sc://") else None
    return os.environ.get("SPARK_REMOTE") or None


def _master_url(master: str | None) -> str | None:
    """Return the master URL; None if `spark-submit` has set it."""
    return master or os.environ.get("MASTER") or (None if _is_submitted() else "local[*]")


def _is_local(master: str | None) -> bool:
    """True if Spark runs on this machine."""
    return (_remote(master) or _master_url(master) or "").startswith("local")


def _local_settings() -> dict[str, str]:
    """Return the settings for Spark on this machine: no output, and all files in a temporary directory."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")
    os.environ.setdefault("SPARK_CONF_DIR", str(_quiet_conf()))
    scratch = _temporary_directory()
    settings = dict(LOCAL)
    if os.environ["PYSPARK_PYTHON"] == sys.executable:
        settings["spark.python.daemon.module"] = "omnigraph_sql.spark.daemon"
    return settings | {"spark.sql.warehouse.dir": str(scratch / "warehouse"), "spark.local.dir": str(scratch / "local")}


def _is_submitted() -> bool:
    """True if `spark-submit` started this program."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@cache
def _temporary_directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="omnigraph-spark-"))
    remove_at_shutdown(directory)
    return directory


@cache
def _quiet_conf() -> Path:
    directory = _temporary_directory() / "conf"
    directory.mkdir()
    (directory / "log4j2.properties").write_text(_SILENCE)
    return directory
