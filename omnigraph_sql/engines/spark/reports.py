"""What is said of a query that failed on Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph_sql.engines.execution import Execution, TooWide, defect, translate
from omnigraph_sql.engines.spark.failures import carrying, restored
from omnigraph_sql.engines.weights import too_many
from omnigraph_sql.errors import BadRequest, Configuration, Internal, OmnigraphError, ResourceLimit, Storage

_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
# A worker that is gone before it is there fails where it is made, with whatever its socket says.
_LOST = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "spark.daemon's stdout",
    "PythonWorkerFactory",
    "FetchFailed",
)
_WIDE = ("destinations", "rows")


@contextmanager
def reporting(rows: int) -> Iterator[None]:
    """In a worker: what a function raises for so many rows is carried to the process that runs the query."""
    with carrying():
        try:
            yield
        except OmnigraphError:
            raise
        except TooWide as found:
            wide = Internal(f"{found.destinations} destinations are too many for a batch")
            wide.__dict__ |= dict(zip(_WIDE, (found.destinations, rows), strict=True))
            raise wide from found
        except Exception as error:
            raise defect(error) from error


def _carried(text: str, execution: Execution) -> Exception | None:
    found = restored(text)
    if found is None or not all(name in vars(found) for name in _WIDE):
        return found
    destinations, execution.first_rows = (vars(found)[name] for name in _WIDE)
    return TooWide(destinations)


def told(error: Exception, execution: Execution) -> BaseException:
    """The error to raise for what Spark raised."""
    text = str(error)
    failure = execution.failure or _carried(text, execution)
    if failure is not None:
        return failure
    if isinstance(error, OmnigraphError):
        return error
    return _of_spark(text, execution) or translate(error, execution)


def _of_spark(text: str, execution: Execution) -> OmnigraphError | None:
    """What can happen to a query, through no fault of its own."""
    if "SPARK_JOB_CANCELLED" in text or "OPERATION_CANCELED" in text:
        return BadRequest("the query was cancelled", hint="run it again")
    if "ARITHMETIC_OVERFLOW" in text:
        return too_many()
    if "spark.driver.maxResultSize" in text:
        memory = execution.limits.memory
        return _out_of_memory("the result is larger than Spark may collect", "spark.driver.maxResultSize", memory, "query")
    return of_cluster(text, execution.limits.memory, "query")


def of_cluster(text: str, memory: int, work: str) -> OmnigraphError | None:
    """What can happen to any work on a cluster: a query, a pipeline."""
    if "java.lang.OutOfMemoryError" in text or "UNABLE_TO_ACQUIRE_MEMORY" in text:
        return _out_of_memory("Spark ran out of memory", "spark.executor.memory and spark.driver.memory", memory, work)
    if "SparkContext was shut down" in text or "stopped SparkContext" in text or "SparkContext is stopped" in text:
        return Configuration("the Spark session was stopped", what="spark session", hint=f"run the {work} again")
    missing = _MISSING.search(text)
    if missing is not None:
        hint = "install omnigraph-sql where the workers run, and let PYSPARK_PYTHON name the Python that has it"
        return Configuration(f"the Python workers of Spark have no package `{missing[1]}`", what=missing[1], hint=hint)
    if any(sign in text for sign in _LOST):
        hint = "run it again; if it happens again, look at the logs of Spark's executors, and give them more memory"
        return Storage(f"Spark lost a worker while it ran the {work}", storage_class="transient", hint=hint)
    return None


def _out_of_memory(text: str, setting: str, limit: int, work: str) -> ResourceLimit:
    hint = f"narrow the {work} down, or raise {setting}"
    return ResourceLimit(text, resource="memory", limit=limit, actual=limit, hint=hint)
