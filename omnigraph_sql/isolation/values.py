"""Conversion of parameters for a child process, which cannot import the caller's classes."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

_PLAIN: Final = frozenset(
    {type(None), bool, int, float, str, bytes, bytearray, datetime.date, datetime.timedelta, decimal.Decimal, uuid.UUID}
)


def sendable(name: str, value: Any, bind: Callable[[str, Any], pa.Scalar]) -> Any:
    """Convert a parameter to builtin, NumPy or Arrow values that bind to the same scalar; `bind` raises if it fails."""
    if type(value) in _PLAIN or isinstance(value, np.generic | pa.Scalar | pa.Array | pa.ChunkedArray):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return np.asarray(value)
    if type(value) in (list, tuple):
        return [sendable(name, element, bind) for element in value]
    if type(value) is dict:
        return {sendable(name, key, bind): sendable(name, element, bind) for key, element in value.items()}
    return bind(name, value).as_py()
