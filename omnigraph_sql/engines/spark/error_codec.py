"""Codec for errors of this package that cross Spark: Spark passes on only a text, so the text contains the encoded error."""

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


class EncodedError(Exception):
    """An error on its way through Spark: a readable message followed by the encoded error."""


@contextmanager
def encoded_errors() -> Iterator[None]:
    """In a process of Spark: raise errors in the form that `typed_errors` decodes."""
    try:
        yield
    except OmnigraphError as error:
        fields = {name: value for name, value in vars(error).items() if isinstance(value, _PLAIN)}
        entry = json.dumps({"class": type(error).__name__, "fields": fields})
        mark = base64.b64encode(entry.encode()).decode()
        raise EncodedError(f"{type(error).__name__}: {error}\n[omnigraph {mark}]") from _cause_of(error, error)


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise errors of this package with their own classes, instead of the errors of Spark that wrap them.

    Reads and writes of the data source run in processes of Spark, which turns errors there into texts. Other errors of
    Spark are left alone. Actions belong into the block as well: `collect`, `awaitTermination`.

    Example:
        >>> spark = og.spark.session("local[2]")
        >>> try:
        ...     with og.spark.typed_errors():
        ...         spark.read.format("omnigraph").option("type", "Prot").load(graph.uri).count()
        ... except og.errors.BadRequest as error:
        ...     print(error.hint)
        did you mean `Port`?
    """
    try:
        yield
    except OmnigraphError:
        raise
    except Exception as error:
        decoded = decoded_error(whole_text(error))
        if decoded is None:
            raise
        raise decoded from _cause_of(decoded, error)


def _cause_of(error: OmnigraphError, cause: BaseException) -> BaseException | None:
    """Return the cause to chain to an error: only a defect needs the traceback."""
    return cause if isinstance(error, Internal) else None


def decoded_error(text: str) -> OmnigraphError | None:
    """Return the error that is encoded in a text of Spark; None if there is none."""
    mark = _MARK.search(text)
    if mark is None:
        return None
    entry = json.loads(base64.b64decode(mark[1]))
    kind = getattr(errors, entry["class"], errors.Internal)
    error: OmnigraphError = kind.__new__(kind, entry["fields"]["message"])
    error.args = (entry["fields"]["message"],)
    error.__dict__ |= entry["fields"]
    return error


def whole_text(error: BaseException) -> str:
    """Return the text of an error of Spark with the texts of its Java causes."""
    texts = [str(error)]
    cause = getattr(error, "java_exception", None)
    while cause is not None:
        texts.append(f"Caused by: {cause.toString()}")
        cause = cause.getCause()
    return "\n".join(texts)
