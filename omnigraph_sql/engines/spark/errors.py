"""Translation of Spark's errors about a query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph_sql.binding.path_counts import count_overflow
from omnigraph_sql.engines.spark.error_codec import decoded_error, encoded_errors
from omnigraph_sql.errors import BadRequest, Configuration, Internal, OmnigraphError, ResourceLimit, Storage
from omnigraph_sql.runtime.execution import BatchTooWide, Execution, engine_error, error_for_defect

_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
# A worker that dies while it starts fails with an error of its factory or socket.
_LOST = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "spark.daemon's stdout",
    "PythonWorkerFactory",
    "FetchFailed",
)
_BATCH_FIELDS = ("destinations", "max_destinations", "rows")


@contextmanager
def reported_failures() -> Iterator[None]:
    """In a worker: encode the exceptions of a function, so that the driver can raise them again."""
    with encoded_errors():
        try:
            yield
        except OmnigraphError:
            raise
        except BatchTooWide as too_wide:
            carrier = Internal(f"{too_wide.destinations} destinations are too many for a batch")
            carrier.__dict__ |= {name: getattr(too_wide, name) for name in _BATCH_FIELDS}
            raise carrier from too_wide
        except Exception as error:
            raise error_for_defect(error) from error


def _worker_error(text: str) -> Exception | None:
    """Return the error that a worker has encoded in a text of Spark."""
    error = decoded_error(text)
    if error is None or not all(name in vars(error) for name in _BATCH_FIELDS):
        return error
    return BatchTooWide(*(vars(error)[name] for name in _BATCH_FIELDS))


def query_error(error: Exception, execution: Execution) -> BaseException:
    """Return the error to raise for an exception of Spark."""
    text = str(error)
    failure = execution.failure or _worker_error(text)
    if failure is not None:
        return failure
    if isinstance(error, OmnigraphError):
        return error
    return _error_for_text(text, execution) or engine_error(error, execution)


def _error_for_text(text: str, execution: Execution) -> OmnigraphError | None:
    """Return the error for a text that is known to be no defect of this package."""
    if "SPARK_JOB_CANCELLED" in text or "OPERATION_CANCELED" in text:
        return BadRequest("the query was cancelled", hint="run it again")
    if "ARITHMETIC_OVERFLOW" in text:
        return count_overflow()
    if "spark.driver.maxResultSize" in text:
        memory = execution.limits.memory
        return _error_for_memory(
            "the result is larger than Spark may collect", "spark.driver.maxResultSize", memory, "query"
        )
    return cluster_error(text, execution.limits.memory, "query")


def cluster_error(text: str, memory: int, work: str) -> OmnigraphError | None:
    """Return the error for failures of the cluster itself, which queries and pipelines share; None for others."""
    if "java.lang.OutOfMemoryError" in text or "UNABLE_TO_ACQUIRE_MEMORY" in text:
        return _error_for_memory("Spark ran out of memory", "spark.executor.memory and spark.driver.memory", memory, work)
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


def _error_for_memory(text: str, setting: str, limit: int, work: str) -> ResourceLimit:
    hint = f"narrow the {work} down, or raise {setting}"
    return ResourceLimit(text, resource="memory", limit=limit, actual=limit, hint=hint)
