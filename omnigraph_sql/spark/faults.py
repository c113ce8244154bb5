"""What is said of a pipeline that failed on Spark: the data, the mapping, the source, or Spark itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from omnigraph_sql.engines.limits import limits
from omnigraph_sql.engines.spark.failures import typed_errors, whole_text
from omnigraph_sql.engines.spark.reports import of_cluster
from omnigraph_sql.errors import BadRequest, Configuration, OmnigraphError, SourceFailed, Storage
from omnigraph_sql.pipeline.planning import PlannedSource, PlannedTarget
from omnigraph_sql.planner.mapping import ROW_HINT

_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.*?)\s*SQLSTATE: (\w{2})\w{3}", re.DOTALL)
_DATA: Final = "22"
"""The class of SQL states of values that an expression cannot take."""
_MISTAKES: Final = ("42", "0A", "21")
"""Those of statements that cannot be understood or carried out."""
_DATABASE: Final = re.compile(r"(?:java\.sql\.\w+|\S*SQL\w*Exception): (.+)")


@contextmanager
def placed(path: object, target: PlannedTarget, source: PlannedSource) -> Iterator[None]:
    """What Spark raises inside is told as an error of ours that names the target or the source."""
    place = f"{path}: `{target.target.place}`"
    try:
        with typed_errors():
            yield
    except BadRequest as error:
        raise BadRequest(f"{place}: {error.message}", hint=error.hint) from error
    except Exception as error:
        found = _fault(error, place, target, source)
        if found is None:
            raise
        raise found from error


@contextmanager
def opening(path: object, source: PlannedSource) -> Iterator[None]:
    """What Spark raises inside is the fault of a source: no row of it was read."""
    given = source.source
    try:
        yield
    except Exception as error:
        if isinstance(error, OmnigraphError) or not _is_of_spark(error):
            raise
        text = whole_text(error)
        found = of_cluster(text, limits().memory, "pipeline")
        if found is None:
            said = f"{path}: `sources.{given.name}` cannot be read: {_sentence(text)}"
            found = Configuration(said, what=given.name, hint=_source_hint(text, given.format))
        raise found from error


def _fault(error: Exception, place: str, target: PlannedTarget, source: PlannedSource) -> OmnigraphError | None:
    """None for what is not Spark's: an error of ours, or a defect."""
    if isinstance(error, OmnigraphError) or not _is_of_spark(error):
        return None
    text = whole_text(error)
    found = of_cluster(text, limits().memory, "pipeline")
    if found is not None:
        return found
    given = source.source
    states = {each[3]: each for each in _CONDITION.finditer(text)}
    if "FAILED_READ_FILE" in text:
        hint = "see that it is whole, and of the format that the source says"
        return BadRequest(f"{place}: the source `{given.name}` cannot be read: {_read_failure(text)}", hint=hint)
    if _DATA in states:
        return BadRequest(f"{place}: the mapping fails: {_told(states[_DATA])}", hint=ROW_HINT)
    database = _DATABASE.search(text)
    if database is not None:
        said = f"{place}: the source `{given.name}` cannot be read: {database[1].strip()}"
        return SourceFailed(said, name=given.name, source=given.table or given.format, hint="look at the database")
    mistake = next((states[each] for each in _MISTAKES if each in states), None)
    if mistake is not None:
        said = f"{place}: the mapping fails: {_told(mistake)}"
        return Configuration(said, what=target.target.place, hint="look at the expressions of this target")
    if _is_of_python(error):
        return None
    hint = "look at the logs of Spark, and run the pipeline again"
    return Storage(
        f"{place}: Spark failed, and nothing was published: {_sentence(text)}", storage_class="unknown", hint=hint
    )


def _is_of_spark(error: Exception) -> bool:
    from pyspark.errors import PySparkException

    # What PySpark has no class for comes as py4j raised it.
    return isinstance(error, PySparkException) or type(error).__module__.startswith("py4j")


def _is_of_python(error: Exception) -> bool:
    """Whether our code in a worker failed with something that is none of our errors: a defect."""
    from pyspark.errors import PythonException

    return isinstance(error, PythonException)


def _sentence(text: str) -> str:
    """What Spark says first that people can use."""
    found = _CONDITION.search(text)
    if found is not None:
        return _told(found)
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    told_by_java = (line for line in lines if not line.startswith(("An error occurred while calling", "at ")))
    return next(told_by_java, "it does not say why")


def _told(found: re.Match[str]) -> str:
    return " ".join(f"[{found[1]}] {found[2]}".split())


def _read_failure(text: str) -> str:
    """The file that Spark could not read, and the deepest cause that it gives."""
    found = next(each for each in _CONDITION.finditer(text) if each[1].startswith("FAILED_READ_FILE"))
    causes = re.findall(r"^Caused by: [\w.$]+: (.+)$", text, re.MULTILINE)
    return _told(found) if not causes else f"{_told(found)} {causes[-1].strip()}"


def _source_hint(text: str, form: str) -> str:
    if "DATA_SOURCE_NOT_FOUND" in text or "ClassNotFoundException" in text:
        return f"there is no format {form} in this Spark; look at its name, or add the package to Spark that reads it"
    if "No suitable driver" in text:
        return "add the jar of the driver to Spark (spark.jars), and name its class: `options: {driver: CLASS}`"
    return "look at the path, the format and the options of the source"
