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
from contextlib import contextmanager
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
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
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


def running_session() -> SparkSession:
    """The Spark session that is there already, as it is; else a new one, as `session` makes it."""
    require_pyspark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    # In another thread than the one that made it, a session is there and is not the active one.
    return session() if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


def session(
    master: str | None = None, *, app_name: str = "omnigraph", config: Mapping[str, Any] | None = None
) -> SparkSession:
    """A Spark session that reads and writes graphs, or the one that is running already.

    `master` is `local[2]`, `spark://HOST:PORT` and the like; without it what `spark-submit` or the settings of Spark say
    holds, else this machine with all its cores. `config` adds settings.
    """
    require_pyspark()
    if not os.environ.get("SPARK_REMOTE") and not os.environ.get("SPARK_CONNECT_MODE_ENABLED"):
        ensure_java()
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\..*")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName(app_name)
    chosen = master or os.environ.get("MASTER") or ("local[*]" if not _is_submitted() else None)
    if chosen is not None and running is None:
        builder = builder.master(chosen)
    settings: dict[str, Any] = dict(SETTINGS)
    if running is None and chosen is not None and chosen.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")
        os.environ.setdefault("SPARK_CONF_DIR", str(_quiet_conf()))
        scratch = _scratch()
        settings |= LOCAL
        if os.environ["PYSPARK_PYTHON"] == sys.executable:
            settings["spark.python.daemon.module"] = "omnigraph_sql.engines.spark.daemon"
        settings |= {"spark.sql.warehouse.dir": str(scratch / "warehouse"), "spark.local.dir": str(scratch / "local")}
    for key, value in (settings | dict(config or {})).items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # To start Java this process is forked, which Lance warns of; the child becomes another program at once.
        warnings.simplefilter("ignore")
        return builder.getOrCreate()


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
