"""Cancellation of the Spark jobs of one query."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AGAIN_SECONDS = 0.1


class CancellableJob:
    """The jobs of one query, tagged with its name so that they can be cancelled together."""

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
        """Tag the jobs that this thread starts."""
        self._idle.clear()
        tagged = self.spark if self._is_remote else self.spark.sparkContext
        add, remove = ("addTag", "removeTag") if self._is_remote else ("addJobTag", "removeJobTag")
        getattr(tagged, add)(self.name)
        try:
            yield
        finally:
            self._idle.set()
            # Fails if the session has ended.
            with suppress(Exception):
                getattr(tagged, remove)(self.name)

    def stop(self) -> None:
        """Cancel the jobs of the query, and those that it starts after them, without waiting."""
        with self._lock:
            if self._is_stopping or self._idle.is_set():
                return
            self._is_stopping = True
        threading.Thread(target=self._stop, name="omnigraph-spark-stop", daemon=True).start()

    def _stop(self) -> None:
        # A query has several jobs: the next one may be about to start.
        while not self._idle.is_set():
            with suppress(Exception):  # the thread that runs the query gets the error of a session that has ended
                if self._is_remote:
                    self.spark.interruptTag(self.name)
                else:
                    self.spark.sparkContext.cancelJobsWithTag(self.name)
            self._idle.wait(_AGAIN_SECONDS)
        with self._lock:
            self._is_stopping = False

    def close(self, tables: Iterable[str]) -> None:
        """Drop the temporary tables of the query, and release its session."""
        with suppress(Exception):  # fails if the session has ended
            for name in tables:
                self.spark.catalog.dropTempView(name)
            if self._is_remote:
                # Stopping the session would also stop a server that was started for it.
                self.spark.client.release_session()
                self.spark.client.close()
