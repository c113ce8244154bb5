"""What Spark does for one query: how it is stopped, and what is left of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AGAIN_SECONDS = 0.1


class Task:
    """The jobs of one query. They carry its name, by which they are stopped."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.spark = spark
        self.name = name
        self._is_remote = not hasattr(spark, "_jsparkSession")
        self._idle = threading.Event()
        self._idle.set()
        self._lock = threading.Lock()
        self._is_stopping = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Jobs that this thread starts belong to the query."""
        self._idle.clear()
        marked = self.spark if self._is_remote else self.spark.sparkContext
        add, remove = ("addTag", "removeTag") if self._is_remote else ("addJobTag", "removeJobTag")
        getattr(marked, add)(self.name)
        try:
            yield
        finally:
            self._idle.set()
            # A session that is gone has no tags.
            with suppress(Exception):
                getattr(marked, remove)(self.name)

    def stop(self) -> None:
        """Stop the jobs, and those that come after them, without waiting for it."""
        with self._lock:
            if self._is_stopping or self._idle.is_set():
                return
            self._is_stopping = True
        threading.Thread(target=self._stop, name="omnigraph-spark-stop", daemon=True).start()

    def _stop(self) -> None:
        # A query is more than one job: the next one may be about to begin.
        while not self._idle.is_set():
            with suppress(Exception):  # whatever the session says now, the thread that runs the query is told
                if self._is_remote:
                    self.spark.interruptTag(self.name)
                else:
                    self.spark.sparkContext.cancelJobsWithTag(self.name)
            self._idle.wait(_AGAIN_SECONDS)
        with self._lock:
            self._is_stopping = False

    def close(self, tables: Iterable[str]) -> None:
        """Let go of the tables that were kept for the query, and of the session with all its names."""
        with suppress(Exception):  # they are gone with the session, if that is
            for name in tables:
                self.spark.catalog.dropTempView(name)
            if self._is_remote:
                # To stop a session would stop a server that was started for it, too.
                self.spark.client.release_session()
                self.spark.client.close()
