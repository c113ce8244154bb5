"""Errors of our functions on their way from a worker of Spark to whoever asked, as text: Spark passes on nothing else."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from omnigraph_sql import errors
from omnigraph_sql.engines.execution import Execution, TooWide, defect, translate
from omnigraph_sql.engines.weights import too_many
from omnigraph_sql.errors import BadRequest, Configuration, Internal, OmnigraphError, ResourceLimit, Storage

_MARK = re.compile(r"omnigraph-failure:([A-Za-z0-9+/=]+):")
_PLAIN = (str, int, float, bool, type(None))


class WorkerFailure(Exception):
    """What a worker raises: an error of ours, written down."""


def written(error: Exception) -> WorkerFailure:
    """An error as one that survives the way."""
    if isinstance(error, TooWide):
        told: dict[str, Any] = {"kind": "TooWide", "fields": {"destinations": error.destinations}}
    else:
        ours = error if isinstance(error, OmnigraphError) else defect(error)
        told = {"kind": type(ours).__name__, "fields": {name: value for name, value in vars(ours).items() if _is_plain(value)}}
    text = base64.b64encode(json.dumps(told).encode()).decode()
    return WorkerFailure(f"omnigraph-failure:{text}:")


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple | list) and all(isinstance(each, _PLAIN) for each in value))


def read(text: str) -> Exception | None:
    """The error that a text was written for, if there is one in it."""
    found = _MARK.search(text)
    if found is None:
        return None
    told = json.loads(base64.b64decode(found[1]))
    fields = told["fields"]
    if told["kind"] == "TooWide":
        return TooWide(fields["destinations"])
    kind = getattr(errors, told["kind"], Internal)
    error: OmnigraphError = kind.__new__(kind, fields["message"])
    error.args = (fields["message"],)
    vars(error).update({name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})
    return error


def told(error: Exception, execution: Execution) -> BaseException:
    """The error to raise for what Spark raised."""
    text = str(error)
    failure = execution.failure or read(text)
    if failure is not None:
        return failure
    if isinstance(error, OmnigraphError):
        return error
    return _of_spark(text, execution) or translate(error, execution)


def _of_spark(text: str, execution: Execution) -> OmnigraphError | None:
    """What can happen to a query on a cluster, through no fault of its own."""
    if "SPARK_JOB_CANCELLED" in text or "OPERATION_CANCELED" in text:
        return BadRequest("the query was cancelled", hint="run it again")
    if "ARITHMETIC_OVERFLOW" in text:
        return too_many()
    if "spark.driver.maxResultSize" in text:
        return _out_of_memory("the result is larger than Spark may collect", "spark.driver.maxResultSize", execution)
    if "java.lang.OutOfMemoryError" in text or "UNABLE_TO_ACQUIRE_MEMORY" in text:
        return _out_of_memory("Spark ran out of memory", "spark.executor.memory and spark.driver.memory", execution)
    if "SparkContext was shut down" in text or "stopped SparkContext" in text or "SparkContext is stopped" in text:
        return Configuration("the Spark session was stopped", what="spark session", hint="run the query again")
    if "Python worker exited unexpectedly" in text or "ExecutorLostFailure" in text or "Lost task" in text:
        hint = "run it again; if it happens again, look at the logs of Spark's executors, and give them more memory"
        return Storage("Spark lost a worker while it ran the query", storage_class="transient", hint=hint)
    return None


def _out_of_memory(text: str, setting: str, execution: Execution) -> ResourceLimit:
    limit = execution.limits.memory
    hint = f"narrow the query down, or raise {setting}"
    return ResourceLimit(text, resource="memory", limit=limit, actual=limit, hint=hint)
