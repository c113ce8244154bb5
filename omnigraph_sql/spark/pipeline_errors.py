"""Errors of pipelines on Spark, attributed to the data, the mapping, the source, or Spark itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from omnigraph_sql.engines.spark.error_codec import typed_errors, whole_text
from omnigraph_sql.engines.spark.errors import cluster_error
from omnigraph_sql.errors import BadRequest, Configuration, OmnigraphError, SourceFailed, Storage
from omnigraph_sql.pipeline.plan import PlannedSource, PlannedTarget
from omnigraph_sql.runtime.limits import run_limits
from omnigraph_sql.sqltext.row_mapping import ROW_HINT

_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.*?)\s*SQLSTATE: (\w{2})\w{3}", re.DOTALL)
_DATA: Final = "22"
"""The class of SQL states for values that an expression cannot take."""
_MISTAKES: Final = ("42", "0A", "21")
"""The classes of SQL states for invalid and unsupported statements."""
_DATABASE: Final = re.compile(r"(?:java\.sql\.\w+|\S*SQL\w*Exception): (.+)")


@contextmanager
def target_errors(path: object, target: PlannedTarget, source: PlannedSource) -> Iterator[None]:
    """Translate errors that Spark raises inside to errors of ours, which name the target or the source."""
    place = f"{path}: `{target.target.place}`"
    try:
        with typed_errors():
            yield
    except BadRequest as error:
        raise BadRequest(f"{place}: {error.message}", hint=error.hint) from error
    except Exception as error:
        translated = _translated(error, place, target, source)
        if translated is None:
            raise
        raise translated from error


@contextmanager
def source_errors(path: object, source: PlannedSource) -> Iterator[None]:
    """Attribute errors that Spark raises inside to a source, of which no row was read."""
    declared = source.source
    try:
        yield
    except Exception as error:
        if isinstance(error, OmnigraphError) or not _is_of_spark(error):
            raise
        text = whole_text(error)
        translated = cluster_error(text, run_limits().memory, "pipeline")
        if translated is None:
            message = f"{path}: `sources.{declared.name}` cannot be read: {_sentence(text)}"
            translated = Configuration(message, what=declared.name, hint=_source_hint(text, declared.format))
        raise translated from error


def _translated(error: Exception, place: str, target: PlannedTarget, source: PlannedSource) -> OmnigraphError | None:
    """Return the error of ours for an error of Spark; None for an error of ours, or a defect."""
    if isinstance(error, OmnigraphError) or not _is_of_spark(error):
        return None
    text = whole_text(error)
    cluster_failure = cluster_error(text, run_limits().memory, "pipeline")
    if cluster_failure is not None:
        return cluster_failure
    declared = source.source
    states = {match[3]: match for match in _CONDITION.finditer(text)}
    if "FAILED_READ_FILE" in text:
        hint = "see that it is whole, and of the format that the source says"
        return BadRequest(f"{place}: the source `{declared.name}` cannot be read: {_read_failure(text)}", hint=hint)
    if _DATA in states:
        return BadRequest(f"{place}: the mapping fails: {_condition_text(states[_DATA])}", hint=ROW_HINT)
    database = _DATABASE.search(text)
    if database is not None:
        message = f"{place}: the source `{declared.name}` cannot be read: {database[1].strip()}"
        return SourceFailed(
            message, name=declared.name, source=declared.table or declared.format, hint="look at the database"
        )
    mistake = next((states[state] for state in _MISTAKES if state in states), None)
    if mistake is not None:
        message = f"{place}: the mapping fails: {_condition_text(mistake)}"
        return Configuration(message, what=target.target.place, hint="look at the expressions of this target")
    if _is_of_python(error):
        return None
    hint = "look at the logs of Spark, and run the pipeline again"
    return Storage(
        f"{place}: Spark failed, and nothing was published: {_sentence(text)}", storage_class="unknown", hint=hint
    )


def _is_of_spark(error: Exception) -> bool:
    from pyspark.errors import PySparkException

    # An error without a class in PySpark is raised by py4j.
    return isinstance(error, PySparkException) or type(error).__module__.startswith("py4j")


def _is_of_python(error: Exception) -> bool:
    """True if our code in a worker raised an error outside of our family: a defect."""
    from pyspark.errors import PythonException

    return isinstance(error, PythonException)


def _sentence(text: str) -> str:
    """Return the first error condition in a text of Spark, else the first line that is not part of a stack trace."""
    condition = _CONDITION.search(text)
    if condition is not None:
        return _condition_text(condition)
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    messages = (line for line in lines if not line.startswith(("An error occurred while calling", "at ")))
    return next(messages, "it gives no reason")


def _condition_text(condition: re.Match[str]) -> str:
    return " ".join(f"[{condition[1]}] {condition[2]}".split())


def _read_failure(text: str) -> str:
    """Return the condition that names the unreadable file, and its root cause."""
    condition = next(match for match in _CONDITION.finditer(text) if match[1].startswith("FAILED_READ_FILE"))
    causes = re.findall(r"^Caused by: [\w.$]+: (.+)$", text, re.MULTILINE)
    return _condition_text(condition) if not causes else f"{_condition_text(condition)} {causes[-1].strip()}"


def _source_hint(text: str, form: str) -> str:
    if "DATA_SOURCE_NOT_FOUND" in text or "ClassNotFoundException" in text:
        return f"there is no format {form} in this Spark; look at its name, or add the package to Spark that reads it"
    if "No suitable driver" in text:
        return "add the jar of the driver to Spark (spark.jars), and name its class: `options: {driver: CLASS}`"
    return "look at the path, the format and the options of the source"
