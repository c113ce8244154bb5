"""Reads the filter that an engine hands to a dataset, and writes one.

It comes as a `pyarrow.compute.Expression`, which shows nothing of its inside but can be serialised: as a batch of one row
with its constants, under a schema whose metadata lists the nodes of the tree in order. Keys repeat there, so they are read
through Arrow's C interface; a dictionary would keep one of each only.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.errors import Internal
from omnigraph_sql.planner.predicates import (
    Both,
    Column,
    Compare,
    Either,
    IsIn,
    IsNull,
    Not,
    Operator,
    Predicate,
    Value,
)

_COMPARED: dict[str, Operator] = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}

_COMPARISONS: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def decoded(expression: Any) -> Predicate:
    """The condition that a filter stands for, with the meaning it has in SQL."""
    if isinstance(expression, pa.Scalar):  # all that DataFusion leaves of a condition that no row, or every row, satisfies
        return Value(expression)
    _, (buffer,) = expression.__reduce__()
    batch = pa.ipc.open_file(buffer).get_batch(0)
    return _Reader(batch, _metadata(batch.schema)).node()


def encoded(conditions: Sequence[Predicate]) -> Any:
    """The filter for rows that satisfy some conditions, each of which was read from one; None for all rows."""
    return reduce(lambda left, right: left & right, map(_expression, conditions)) if conditions else None


def _expression(predicate: Predicate) -> Any:
    match predicate:
        case Column(name):
            return pc.field(name)
        case Value(scalar):
            return pc.scalar(scalar)
        case Compare(compared, left, right):
            return _COMPARISONS[compared](_expression(left), _expression(right))
        case IsIn(operand, values):
            return _expression(operand).isin(values)
        case IsNull(operand):
            return _expression(operand).is_null()
        case Not(IsNull(operand)):
            return _expression(operand).is_valid()
        case Not(operand):
            return ~_expression(operand)
        case Both(left, right):
            return _expression(left) & _expression(right)
        case Either(left, right):
            return _expression(left) | _expression(right)


class _Reader:
    """Goes through the nodes of one filter."""

    def __init__(self, constants: pa.RecordBatch, nodes: Iterator[tuple[str, str]]) -> None:
        self._constants = constants
        self._nodes = nodes
        self._values: pa.Array | None = None

    def node(self) -> Predicate:
        """The tree that starts with the next node."""
        found = self._operand(*next(self._nodes))
        assert found is not None
        return found

    def _operand(self, key: str, text: str) -> Predicate | None:
        """A tree by its first node; None at the end of a call."""
        match key:
            case "field_ref":
                return Column(text)
            case "literal":
                return Value(self._constants.column(int(text))[0])
            case "call":
                return self._call(text)
            case "end":
                return None
            case _:
                raise _unknown(key)

    def _call(self, function: str) -> Predicate:
        operands: list[Predicate] = []
        values: pa.Array | None = None
        for key, text in self._nodes:
            if key == "options":
                values = _value_set(self._constants.column(int(text))[0])
                continue
            operand = self._operand(key, text)
            if operand is None:
                return _built(function, operands, values)
            operands.append(operand)
        raise _unknown(f"{function} without an end")


def _value_set(options: pa.Scalar) -> pa.Array | None:
    named = [field.name for field in options.type]
    return options["value_set"].values if "value_set" in named else None


def _built(function: str, operands: list[Predicate], values: pa.Array | None) -> Predicate:
    match function, operands:
        case _, [left, right] if function in _COMPARED:
            return Compare(_COMPARED[function], left, right)
        case "and_kleene", [left, right]:
            return Both(left, right)
        case "or_kleene", [left, right]:
            return Either(left, right)
        case "invert", [operand]:
            return Not(operand)
        case "is_null", [operand]:
            return IsNull(operand)
        case "is_valid", [operand]:
            return Not(IsNull(operand))
        case "is_in", [operand] if values is not None:
            return IsIn(operand, values)
        # DuckDB writes out what `IN` means for null; here it has that meaning anyway.
        case "if_else", [Not(IsNull(tested)), found, Value(scalar)] if not scalar.is_valid and _is_unknown_without(
            tested, found
        ):
            return found
        case _:
            raise _unknown(function)


def _is_unknown_without(tested: Predicate, predicate: Predicate) -> bool:
    """Whether a condition is unknown where a value is null. DuckDB looks for a zero in a list by a comparison of its own."""
    match predicate:
        case IsIn(operand) | Compare(_, operand, _):
            return operand == tested
        case Either(left, Value(scalar)) if scalar.as_py() is False:
            return _is_unknown_without(tested, left)
        case Either(left, right):
            return _is_unknown_without(tested, left) and _is_unknown_without(tested, right)
    return False


def _unknown(what: str) -> Internal:
    text = f"the engine handed over a filter with `{what}`, which is not understood"
    hint = "this is a defect in omnigraph-sql; write the condition in another way, and please report it"
    return Internal(text, hint=hint)


class _ArrowSchema(ctypes.Structure):
    """The head of the structure of Arrow's C interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Keys and values in order, with those that repeat."""
    capsule = schema.__arrow_c_schema__()
    at = _ArrowSchema.from_address(_pointer(capsule, b"arrow_schema")).metadata
    (count,) = struct.unpack("=i", ctypes.string_at(at, 4))
    at += 4
    texts: list[str] = []
    for _ in range(2 * count):
        (length,) = struct.unpack("=i", ctypes.string_at(at, 4))
        texts.append(ctypes.string_at(at + 4, length).decode("utf-8"))
        at += 4 + length
    return iter(list(zip(texts[::2], texts[1::2], strict=True)))
