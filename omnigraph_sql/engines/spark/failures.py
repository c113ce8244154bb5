"""Errors of ours that cross Spark: raised in one of its processes, told by it as a text, and raised again by the caller."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph_sql import errors
from omnigraph_sql.errors import Internal, OmnigraphError

_MARK = re.compile(r"\[omnigraph ([A-Za-z0-9+/=]+)\]")
_PLAIN = (str, int, float, bool, type(None))


class Carried(Exception):
    """An error on its way through Spark: readable, with a mark that says exactly what it was."""


@contextmanager
def carrying() -> Iterator[None]:
    """In a process of Spark: give errors a form that `typed_errors` recognises."""
    try:
        yield
    except OmnigraphError as error:
        fields = {name: value for name, value in vars(error).items() if isinstance(value, _PLAIN)}
        known = json.dumps({"class": type(error).__name__, "fields": fields})
        mark = base64.b64encode(known.encode()).decode()
        raise Carried(f"{type(error).__name__}: {error}\n[omnigraph {mark}]") from _telling(error, error)


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise errors of ours as what they are, instead of the errors of Spark that tell about them.

        with og.spark.typed_errors():
            people.write.format("omnigraph").option("type", "Person").mode("append").save(uri)

    Reads and writes of the data source run in processes of Spark, which makes a text of what goes wrong there. Everything
    else that Spark raises in the block is left alone. Actions count as well: `collect`, `awaitTermination`.
    """
    try:
        yield
    except OmnigraphError:
        raise
    except Exception as error:
        found = restored(whole_text(error))
        if found is None:
            raise
        raise found from _telling(found, error)


def _telling(found: OmnigraphError, cause: BaseException) -> BaseException | None:
    """What is shown beside an error: its cause, if it is a defect of ours. The frames of others say nothing to anybody."""
    return cause if isinstance(found, Internal) else None


def restored(text: str) -> OmnigraphError | None:
    """The error of ours that an error of Spark tells about."""
    found = _MARK.search(text)
    if found is None:
        return None
    entry = json.loads(base64.b64decode(found[1]))
    kind = getattr(errors, entry["class"], errors.Internal)
    made: OmnigraphError = kind.__new__(kind, entry["fields"]["message"])
    made.args = (entry["fields"]["message"],)
    made.__dict__ |= entry["fields"]
    return made


def whole_text(error: BaseException) -> str:
    """Everything that an error of Spark says; what came from Java says most of it in its causes."""
    texts = [str(error)]
    cause = getattr(error, "java_exception", None)
    while cause is not None:
        texts.append(f"Caused by: {cause.toString()}")
        cause = cause.getCause()
    return "\n".join(texts)
