"""Limits of the parameters of SQL statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from omnigraph_sql.arguments import raised
from omnigraph_sql.errors import BadRequest, ResourceLimit

MOST_VALUES: Final = 1_000_000
"""Values in all parameters."""
MOST_VALUE_BYTES: Final = 64 << 20
MOST_VALUE_DEPTH: Final = 32


def check_parameters(params: Mapping[str, Any]) -> None:
    """Raise if values are larger or more deeply nested than an engine can be trusted with."""
    count = size = 0
    for name, value in _named_values(params):
        # Values are looked at level by level, so that nothing recurses, and one that holds itself comes to an end.
        level: list[Any] = [value]
        depth = 0
        while level:
            if depth > MOST_VALUE_DEPTH:
                raise _error(name, "nesting of values", MOST_VALUE_DEPTH, depth)
            count += len(level)
            if count > MOST_VALUES:
                raise _error(name, "values", MOST_VALUES, count)
            size += sum(map(_size, level))
            if size > MOST_VALUE_BYTES:
                raise _error(name, "bytes of values", MOST_VALUE_BYTES, size)
            try:
                level = [inner for part in level for inner in _parts(part)]
            except Exception as error:  # a class of the caller's may fail in its own way
                text = f"the parameter `{name}` cannot be read: {raised(error)}"
                raise BadRequest(text, hint="give plain values, arrays or values of pyarrow.scalar") from None
            depth += 1


def _named_values(params: Mapping[str, Any]) -> list[tuple[str, Any]]:
    try:
        return list(params.items())
    except Exception as error:
        raise BadRequest(f"the parameters cannot be read: {raised(error)}", hint="give a plain dict") from None


def _error(name: str, resource: str, limit: int, actual: int) -> ResourceLimit:
    text = f"the parameter `{name}` has {actual} {resource}, more than {limit}"
    hint = "pass fewer or flatter values; load what is larger"
    return ResourceLimit(text, resource=resource, limit=limit, actual=actual, hint=hint)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, str | bytes | bytearray | memoryview):
        return ()
    if isinstance(value, Mapping):
        return (*value.keys(), *value.values())
    return value if isinstance(value, Sequence | set | frozenset) else ()


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    size = getattr(value, "nbytes", 0)  # arrays, and what Arrow made of them
    return size if isinstance(size, int) else 0
