"""Jobs that things happen to on a cluster, run by themselves: `python cluster_failures.py DIRECTORY MASTER SCENARIO...`.

A task writes down that it is at work and waits, with a data file open, to be killed or overtaken. Prints what became of each
job, as JSON in the last line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omnigraph_sql as og

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

CONFIG = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.ui.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}
ROWS, PARTS = 400_000, 4
"""So many that a task has begun to write before all of its rows are there."""
PATIENCE = 90


def people(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, PARTS).selectExpr("concat('p', id) as key", "concat('name of ', id) as name")


def waiting(marks: str, attempts: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The same rows; so many attempts of the first task wait after they have given theirs."""

    def give(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        mark = Path(marks) / f"{context.partitionId()}.{context.attemptNumber()}"
        mark.write_text(str(os.getpid()))
        if context.partitionId() == 0 and context.attemptNumber() < attempts:
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until and not mark.with_suffix(f"{mark.suffix}-over").exists():
                time.sleep(0.2)

    return give


def writers(directory: Path) -> list[int]:
    """The processes that have a file of a directory open."""
    found = set()
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            with suppress(OSError):
                for link in (each / "fd").iterdir():
                    with suppress(OSError):
                        if str(link.readlink()).startswith(str(directory)):
                            found.add(int(each.name))
    return sorted(found)


def executor_of(worker: int) -> int:
    """The Java process that a Python worker works for."""
    process = worker
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{process}/cmdline").read_bytes():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


class Killer(threading.Thread):
    """Kills what works on the first task, each of so many attempts of it, once all others are done."""

    def __init__(self, marks: Path, data: Path, attempts: int, *, whole: bool) -> None:
        super().__init__(daemon=True)
        self.killed: list[int] = []
        self._marks, self._data, self._attempts, self._whole = marks, data, attempts, whole

    def run(self) -> None:
        for attempt in range(self._attempts):
            mark = self._marks / f"0.{attempt}"
            writer = self._last_writer(mark)
            victim = executor_of(int(mark.read_text())) if self._whole else writer
            os.kill(victim, signal.SIGKILL)
            self.killed.append(victim)
            (self._marks / f"0.{attempt}-over").touch()

    def _last_writer(self, mark: Path) -> int:
        """The process that still writes when all others have been done for a while."""
        seen: list[list[int]] = []
        while not (mark.exists() and len(seen) == 5 and all(each == seen[0] and len(each) == 1 for each in seen)):
            seen = [*seen[-4:], writers(self._data)]
            time.sleep(0.3)
        return seen[0][0]


def run(spark: SparkSession, graph: og.Graph, place: Path, attempts: int, *, kills: bool, whole: bool) -> dict[str, Any]:
    """Write all people while something happens to the first task."""
    marks = place / "marks"
    marks.mkdir()
    entry = graph.snapshot().entry("node:Person")
    killer = Killer(marks, Path(graph.uri) / entry.path / "data", attempts, whole=whole)
    if kills:
        killer.start()
    failure, result = None, None
    try:
        with og.spark.GraphLoad(spark, graph.uri, load_id="night") as load:
            load.nodes("Person", people(spark).mapInArrow(waiting(str(marks), attempts), "key string, name string"))
        result = dict(load.result.nodes)
    except Exception as error:
        failure = str(error)
    time.sleep(5)  # Attempts that nobody waits for come to their end.
    done = sorted(mark.name for mark in marks.iterdir() if not mark.name.endswith("-over"))
    return {"result": result, "failure": failure, "killed": len(killer.killed), "attempts": done}


SCENARIOS: dict[str, dict[str, Any]] = {
    "worker": {"attempts": 1, "kills": True, "whole": False},
    "executor": {"attempts": 1, "kills": True, "whole": True},
    "every attempt": {"attempts": 4, "kills": True, "whole": False},
    "speculation": {"attempts": 1, "kills": False, "whole": False},
}


def main(place: Path, master: str, scenarios: list[str]) -> None:
    config = CONFIG | (SPECULATION if "speculation" in scenarios else {})
    spark = og.spark.session(master, config=config)
    # The Python workers of all executors are there, and are not what is waited for.
    spark.range(0, 100, 1, 8).mapInArrow(lambda rows: rows, "id long").collect()
    saw = {}
    for each in scenarios:
        at = place / each.replace(" ", "-")
        saw[each] = run(spark, og.connect(at / "graph"), at, **SCENARIOS[each])
    spark.stop()
    print(json.dumps(saw))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
