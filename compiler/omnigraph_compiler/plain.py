"""Conversion of array libraries' values to plain Python values, without importing any of these libraries.

NumPy, pandas, polars, PyArrow and `array` each have a method that returns plain values. It is called only for values that
are not plain already.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

_PLAIN = frozenset({str, int, float, bool, list, dict, type(None), datetime.date, datetime.datetime, bytes, bytearray})
_METHODS = ("to_pylist", "as_py", "tolist", "to_list")


def plain_value(value: Any) -> Any:
    """Convert a scalar, list or array to plain Python values; return anything else unchanged.

    >>> import array
    >>> plain_value(array.array("d", [0.5, 1.0])), plain_value((1, 2)), plain_value(range(3))
    ([0.5, 1.0], [1, 2], [0, 1, 2])
    >>> import numpy
    >>> plain_value(numpy.array([1, 2], "int8")), plain_value(numpy.float64(0.5)), plain_value("text")
    ([1, 2], 0.5, 'text')
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, datetime.date):  # pandas instants are a subclass
        return value
    if getattr(getattr(value, "dtype", None), "kind", None) == "M":
        value = _with_microseconds(value)
    for method in _METHODS:
        convert = getattr(value, method, None)
        if callable(convert) and not isinstance(value, type | Mapping):
            try:
                return convert()
            except (TypeError, ValueError, NotImplementedError):
                return value
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return list(value)
    return value


def plain_text(value: str) -> str:
    """A text of any class as a plain one: a class of the caller's may say something else of itself, or fail."""
    return str.__str__(value)


def _with_microseconds(value: Any) -> Any:
    """Convert NumPy instants to a unit that Python's `datetime` supports; nanoseconds would become integers."""
    try:
        return value.astype("datetime64[D]" if str(value.dtype) == "datetime64[D]" else "datetime64[us]")
    except (AttributeError, TypeError, ValueError):
        return value
