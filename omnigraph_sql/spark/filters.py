"""Filters that Spark pushes down, as conditions on tables.

Spark keeps the filters that tables evaluate differently: comparisons of floating-point numbers with NaN, and with zero,
which has two signs.
"""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark

_COMPARISONS = {
    spark.EqualTo: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}
_PATTERNS = {spark.StringStartsWith: "{}%", spark.StringEndsWith: "%{}", spark.StringContains: "%{}%"}


def condition(filter: Any, schema: pa.Schema) -> str | None:
    """Return the condition of a filter on a table; None if Spark has to evaluate it."""
    if isinstance(filter, spark.Not):
        inner = condition(filter.child, schema)
        return None if inner is None else f"NOT ({inner})"
    if len(filter.attribute) != 1 or filter.attribute[0] not in schema.names:
        return None
    column, kind = f"`{filter.attribute[0]}`", schema.field(filter.attribute[0]).type
    if isinstance(filter, spark.IsNull):
        return f"{column} IS NULL"
    if isinstance(filter, spark.IsNotNull):
        return f"{column} IS NOT NULL"
    if isinstance(filter, spark.In):
        literals = [_literal(value, kind) for value in filter.value]
        return None if None in literals or not literals else f"{column} IN ({', '.join(map(str, literals))})"
    if type(filter) in _PATTERNS and pa.types.is_string(kind):
        if any(character in filter.value for character in "%_\\"):
            return None
        return f"{column} LIKE {_text(_PATTERNS[type(filter)].format(filter.value))}"
    word, literal = _COMPARISONS.get(type(filter)), _literal(getattr(filter, "value", None), kind)
    return None if word is None or literal is None else f"{column} {word} {literal}"


def _literal(value: Any, kind: pa.DataType) -> str | None:
    """Return a value as a literal of the type of its column; None if the literal would lose precision."""
    if isinstance(value, bool):
        return str(value).lower() if pa.types.is_boolean(kind) else None
    if isinstance(value, str):
        return _text(value) if pa.types.is_string(kind) else None
    if pa.types.is_integer(kind):
        is_whole = isinstance(value, int) or (isinstance(value, decimal.Decimal) and value == value.to_integral_value())
        return str(int(value)) if is_whole else None
    if pa.types.is_floating(kind):
        is_plain = isinstance(value, int | float) and value != 0 and math.isfinite(value)
        return f"CAST({float(value)!r} AS {'FLOAT' if pa.types.is_float32(kind) else 'DOUBLE'})" if is_plain else None
    if isinstance(value, datetime.datetime):
        return _instant(value) if pa.types.is_timestamp(kind) else None
    if isinstance(value, datetime.date):
        return f"date '{value.isoformat()}'" if pa.types.is_date32(kind) else None
    return None


def _instant(value: datetime.datetime) -> str | None:
    if value.microsecond % 1000 or not 1 < value.year < 9999:
        return None
    moment = value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)
    return f"timestamp '{moment.replace(tzinfo=None).isoformat(sep=' ', timespec='milliseconds')}'"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
