"""Inserts of literal values into tables without constraints: they need no engine, and their rows are staged together."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from omnigraph_sql.graph.column_values import TargetColumn
from omnigraph_sql.graph.row_selects import insert_columns, wrong_count
from omnigraph_sql.graph.write_targets import StatementContext, WriteTarget
from omnigraph_sql.sqltext.write_statements import InsertStatement

_LITERAL: Final = re.compile(
    r"""(?P<whole>[+-]?\d{1,18})|(?P<fraction>[+-]?\d{1,8}\.\d{1,7})|(?P<text>'(?:[^']|'')*')|\$(?P<parameter>\w+)
    |(?P<null>null)|(?P<true>true)|(?P<false>false)""",
    re.VERBOSE | re.IGNORECASE,
)
_KINDS: Final = {int: pa.int64(), str: pa.string(), bool: pa.bool_(), float: pa.float64(), type(None): pa.null()}


class NoLiteral(Exception):
    """Raised for what only an engine can compute."""


def insert_literals(context: StatementContext, statement: InsertStatement) -> int | None:
    """Run an insert, and return the number of its rows; None for one that an engine has to run."""
    if not statement.tuples or statement.conflict is not None or statement.by_name or statement.prefix:
        return None
    target = context.target(statement.table)
    if target.table.type is not None or any(target.rules.unique_keys()) or any(target.rules.checks()):
        return None
    try:
        rows = _rows(target, statement, context.params)
    except NoLiteral:
        return None
    context.writes.append_later(target.table_key, rows)
    return len(statement.tuples)


def _rows(target: WriteTarget, statement: InsertStatement, params: Mapping[str, Any]) -> pa.RecordBatch:
    tuples = statement.tuples
    columns = insert_columns(target, statement, len(tuples[0]))
    if any(name not in columns for name in target.rules.defaults):
        raise NoLiteral
    for values in tuples:
        if len(values) != len(tuples[0]):
            raise NoLiteral
    if len(columns) != len(tuples[0]):
        raise wrong_count(target, len(tuples[0]), len(columns))
    arrays = []
    for field in target.schema:
        if field.name in columns:
            place = columns.index(field.name)
            values = _array([_value(row[place], field.type, params) for row in tuples])
        else:
            values = pa.nulls(len(tuples))
        arrays.append(TargetColumn(target.table_key, field).taken(values, 1))
    return pa.RecordBatch.from_arrays(arrays, schema=target.schema)


def _value(text: str | None, kind: pa.DataType, params: Mapping[str, Any]) -> Any:
    """The value of an expression of `values`."""
    literal = None if text is None else _LITERAL.fullmatch(text.strip())
    if literal is None:
        raise NoLiteral
    content = literal[0]
    match literal.lastgroup:
        case "whole":
            return int(content)
        case "fraction":
            if not pa.types.is_floating(kind):
                raise NoLiteral  # engines differ in whether it is a decimal
            return float(content)
        case "text":
            return content[1:-1].replace("''", "'")
        case "parameter":
            return _parameter(literal["parameter"], params)
    return {"null": None, "true": True, "false": False}[content.lower()]


def _parameter(name: str, params: Mapping[str, Any]) -> Any:
    value = params.get(name, ...)
    is_plain = type(value) in _KINDS and not (type(value) is int and abs(value) >> 62)
    if not is_plain or (type(value) is float and not math.isfinite(value)):
        raise NoLiteral
    return value


def _array(values: Sequence[Any]) -> pa.Array:
    """Values of one type as an array; engines decide what values of several types become."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1:
        raise NoLiteral
    return pa.array(values, _KINDS[kinds.pop()] if kinds else pa.null())
