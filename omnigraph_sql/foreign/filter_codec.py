"""Codec between the filters that engines pass to datasets and predicates.

A filter is a `pyarrow.compute.Expression`, which is opaque but can be serialised: as a batch of one row with the constants,
under a schema whose metadata lists the nodes of the tree in order. Keys are repeated there, so the metadata is read through
Arrow's C interface; a dictionary would drop duplicates.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.comparison import COMPARATORS, ComparisonOperator
from omnigraph_sql.errors import Internal
from omnigraph_sql.sqltext.predicates import (
    Both,
    Comparison,
    Either,
    IsIn,
    IsNull,
    Not,
    Predicate,
    PredicateColumn,
    PredicateValue,
)
from omnigraph_sql.sqltext.text_limits import too_deep

_BY_ARROW_NAME: dict[str, ComparisonOperator] = {COMPARATORS[op].arrow: op for op in get_args(ComparisonOperator)}


def decode_filter(expression: Any) -> Predicate:
    """Decode a filter into a predicate with SQL semantics."""
    if isinstance(expression, pa.Scalar):  # DataFusion has folded a condition that is the same for all rows
        return PredicateValue(expression)
    _, (buffer,) = expression.__reduce__()
    batch = pa.ipc.open_file(buffer).get_batch(0)
    try:
        return _Reader(batch, _metadata(batch.schema)).node()
    except RecursionError:
        raise too_deep("a condition") from None


def encode_filter(conditions: Sequence[Predicate]) -> Any:
    """Encode the conjunction of predicates as a filter; None if there are none."""
    return reduce(lambda left, right: left & right, map(_expression, conditions)) if conditions else None


def _expression(predicate: Predicate) -> Any:
    match predicate:
        case PredicateColumn(name):
            return pc.field(name)
        case PredicateValue(scalar):
            return pc.scalar(scalar)
        case Comparison(compared, left, right):
            return COMPARATORS[compared].apply(_expression(left), _expression(right))
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
    """Parser of the nodes of one filter."""

    def __init__(self, constants: pa.RecordBatch, nodes: Iterator[tuple[str, str]]) -> None:
        self._constants = constants
        self._nodes = nodes
        self._values: pa.Array | None = None

    def node(self) -> Predicate:
        """Parse the tree that starts with the next node."""
        predicate = self._operand(*next(self._nodes))
        assert predicate is not None
        return predicate

    def _operand(self, key: str, text: str) -> Predicate | None:
        """Parse the tree that starts with a node; None at the end of a call."""
        match key:
            case "field_ref":
                return PredicateColumn(text)
            case "literal":
                return PredicateValue(self._constants.column(int(text))[0])
            case "call":
                return self._call(text)
            case "end":
                return None
            case _:
                raise _error_for_node(key)

    def _call(self, function: str) -> Predicate:
        operands: list[Predicate] = []
        values: pa.Array | None = None
        for key, text in self._nodes:
            if key == "options":
                values = _value_set(self._constants.column(int(text))[0])
                continue
            operand = self._operand(key, text)
            if operand is None:
                return _predicate(function, operands, values)
            operands.append(operand)
        raise _error_for_node(f"{function} without an end")


def _value_set(options: pa.Scalar) -> pa.Array | None:
    named = [field.name for field in options.type]
    return options["value_set"].values if "value_set" in named else None


def _predicate(function: str, operands: list[Predicate], values: pa.Array | None) -> Predicate:
    match function, operands:
        case _, [left, right] if function in _BY_ARROW_NAME:
            return Comparison(_BY_ARROW_NAME[function], left, right)
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
        # DuckDB spells out the meaning of `IN` for null, which the predicate has anyway.
        case "if_else", [Not(IsNull(tested)), inner, PredicateValue(scalar)] if not scalar.is_valid and _is_unknown_without(
            tested, inner
        ):
            return inner
        case _:
            raise _error_for_node(function)


def _is_unknown_without(tested: Predicate, predicate: Predicate) -> bool:
    """True if a predicate is unknown where a value is null. For a list with a zero, DuckDB adds a comparison to `IN`."""
    match predicate:
        case IsIn(operand) | Comparison(_, operand, _):
            return operand == tested
        case Either(left, PredicateValue(scalar)) if scalar.as_py() is False:
            return _is_unknown_without(tested, left)
        case Either(left, right):
            return _is_unknown_without(tested, left) and _is_unknown_without(tested, right)
    return False


def _error_for_node(node: str) -> Internal:
    text = f"the engine handed over a filter with `{node}`, which is not understood"
    hint = "this is a defect in omnigraph-sql; write the condition in another way, and please report it"
    return Internal(text, hint=hint)


class _ArrowSchema(ctypes.Structure):
    """The first members of the `ArrowSchema` struct of Arrow's C interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Return keys and values of the metadata in order, with duplicates."""
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
