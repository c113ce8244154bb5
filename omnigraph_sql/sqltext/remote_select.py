"""Statements that are sent to another database: one SELECT each, built as a tree and rendered in its dialect.

Whoever sends one checks every row that comes back, so a condition may ask for more rows than are wanted. It may never ask
for fewer: what cannot be said exactly there is left out of an `AND`, and takes an `OR` or a `NOT` around it with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pyarrow as pa
from sqlglot import exp

from omnigraph_sql.comparison import COMPARATORS, ComparisonOperator
from omnigraph_sql.sqltext.comparison_nodes import COMPARISON_NODES
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

Dialect = Literal["postgres", "duckdb"]
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIMENSIONS = "more than one dimension: "


class Compares(Enum):
    """How the comparisons of the remote database agree with ours for a type."""

    NOTHING = "nothing"
    """Differently or not at all; only `IS NULL` means the same."""
    NOT_EVEN_NULL = "not even null"
    """As above, and `IS NULL` differs as well."""
    BOOLEANS = "booleans"
    INTEGERS = "integers"
    DECIMALS = "decimals"
    SINGLES = "singles"
    DOUBLES = "doubles"
    TEXTS = "texts"
    """Equality agrees; the order depends on the locale of the database."""
    COLLATED = "collated"
    """Texts with a collation, which may change order and equality; without it they compare as ours do."""
    PADDED = "padded"
    """Texts padded with blanks, which comparisons ignore."""
    LABELS = "labels"
    """Enumerated values: comparing with any other text is an error there."""
    UUIDS = "uuids"
    """Read as lower-case texts; comparing with an invalid text is an error there."""
    DATES = "dates"
    TIMESTAMPS = "timestamps"
    INSTANTS = "instants"


_UNORDERED = {Compares.TEXTS, Compares.PADDED, Compares.LABELS, Compares.UUIDS, Compares.BOOLEANS}


@dataclass(frozen=True)
class RemoteColumn:
    """A remote column: its name, its comparisons, and how it is transferred."""

    name: str
    compares: Compares
    cast: str | None = None
    """The type it is cast to first, if any."""
    array_of: str | None = None
    """The type of the elements of an array, which must have one dimension."""


@dataclass(frozen=True)
class RemoteTableRef:
    """A remote table."""

    dialect: Dialect
    schema: str
    name: str
    columns: tuple[RemoteColumn, ...]
    catalog: str | None = None
    """The database, where a connection has several."""


@dataclass(frozen=True)
class RemoteQuery:
    """A statement for another database."""

    sql: str
    is_exact: bool
    """True if it returns exactly the requested rows; otherwise it may return more."""


def remote_count(table: RemoteTableRef) -> RemoteQuery:
    """Return a statement that counts the rows of a table."""
    return RemoteQuery(_render(exp.select(exp.Count(this=exp.Star())).from_(_source(table)), table), is_exact=True)


def remote_select(
    table: RemoteTableRef, columns: Sequence[str], predicate: Predicate | None, limit: int | None
) -> RemoteQuery:
    """Return a statement for the rows that satisfy a condition, or for more rows; `limit` applies only if it is exact."""
    known = {column.name: column for column in table.columns}
    query = exp.select(*(_output(known[name]) for name in columns)).from_(_source(table))
    where = _TranslatedCondition(None, is_exact=True) if predicate is None else _Translation(known).translate(predicate)
    if where.tree is not None:
        query = query.where(where.tree)
    if limit is not None and where.is_exact:
        query = query.limit(limit)
    return RemoteQuery(_render(query, table), where.is_exact)


def text_literal(value: str) -> str:
    """Return a string literal that Postgres and DuckDB understand.

    >>> text_literal("it's")
    "'it''s'"
    """
    return exp.Literal.string(value).sql(dialect="postgres")


def _render(query: exp.Expr, table: RemoteTableRef) -> str:
    return query.sql(dialect=table.dialect)


def _source(table: RemoteTableRef) -> exp.Table:
    catalog = None if table.catalog is None else _identifier(table.catalog)
    return exp.Table(this=_identifier(table.name), db=_identifier(table.schema), catalog=catalog)


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _column(column: RemoteColumn) -> exp.Expr:
    return exp.Column(this=_identifier(column.name))


def _output(column: RemoteColumn) -> exp.Expr:
    if column.array_of is not None:
        return exp.alias_(_flat(column, column.array_of), column.name, quoted=True)
    if column.cast is not None:
        return exp.alias_(_cast(_column(column), column.cast), column.name, quoted=True)
    return _column(column)


def _flat(column: RemoteColumn, element: str) -> exp.Expr:
    """Return an array expression that fails for several dimensions, which drivers would flatten silently."""
    dimensions = exp.Coalesce(this=exp.func("array_ndims", _column(column)), expressions=[exp.Literal.number(1)])
    text = exp.DPipe(this=exp.Literal.string(_DIMENSIONS), expression=_cast(_column(column), "text"))
    refused = _cast(exp.paren(text), f"{element}[]")
    return exp.case().when(exp.EQ(this=dimensions, expression=exp.Literal.number(1)), _column(column)).else_(refused)


def _cast(what: exp.Expr, kind: str) -> exp.Cast:
    return exp.Cast(this=what, to=exp.DataType.build(kind, dialect="postgres"))


@dataclass(frozen=True)
class _TranslatedCondition:
    """A condition in SQL, and whether it is exact; the tree is None if nothing can be translated."""

    tree: exp.Expr | None
    is_exact: bool


_UNTRANSLATABLE = _TranslatedCondition(None, is_exact=False)


class _Translation:
    """Turns a condition on the columns of a table into SQL."""

    def __init__(self, columns: Mapping[str, RemoteColumn]) -> None:
        self._columns = columns

    def translate(self, predicate: Predicate) -> _TranslatedCondition:
        """Return the translatable part of a condition."""
        match predicate:
            case Both(left, right):
                return _both(self.translate(left), self.translate(right))
            case Either(left, right):
                return _either(self.translate(left), self.translate(right))
            case Not(operand):
                return _not(self.translate(operand))
            case IsNull(PredicateColumn(name)) if self._columns[name].compares is not Compares.NOT_EVEN_NULL:
                return _TranslatedCondition(exp.Is(this=_column(self._columns[name]), expression=exp.Null()), is_exact=True)
            case Comparison(operator, PredicateColumn(name), PredicateValue(scalar)):
                return self._compared(operator, self._columns[name], scalar)
            case Comparison(operator, PredicateValue(scalar), PredicateColumn(name)):
                return self._compared(COMPARATORS[operator].mirrored, self._columns[name], scalar)
            case IsIn(PredicateColumn(name), values):
                return self._listed(self._columns[name], values)
            case PredicateColumn(name) if self._columns[name].compares is Compares.BOOLEANS:
                return _TranslatedCondition(_column(self._columns[name]), is_exact=True)
            case PredicateValue(scalar) if pa.types.is_boolean(scalar.type):
                return _TranslatedCondition(
                    exp.Null() if scalar.as_py() is None else exp.Boolean(this=scalar.as_py()), is_exact=True
                )
            case _:
                return _UNTRANSLATABLE

    def _compared(self, operator: ComparisonOperator, column: RemoteColumn, scalar: pa.Scalar) -> _TranslatedCondition:
        if operator not in ("=", "!=") and column.compares in _UNORDERED:
            return _UNTRANSLATABLE
        value = _literal(column, scalar)
        if value is None:
            return _UNTRANSLATABLE
        return _TranslatedCondition(
            COMPARISON_NODES[operator](this=_compared_column(column), expression=value), is_exact=True
        )

    def _listed(self, column: RemoteColumn, values: pa.Array) -> _TranslatedCondition:
        literals = [_literal(column, value) for value in values]
        if not literals or None in literals:
            return _UNTRANSLATABLE
        return _TranslatedCondition(exp.In(this=_compared_column(column), expressions=literals), is_exact=True)


def _both(left: _TranslatedCondition, right: _TranslatedCondition) -> _TranslatedCondition:
    if left.tree is None or right.tree is None:
        return replace(left if right.tree is None else right, is_exact=False)
    tree = exp.And(this=_inside(left.tree, exp.Or), expression=_inside(right.tree, exp.Or))
    return _TranslatedCondition(tree, left.is_exact and right.is_exact)


def _either(left: _TranslatedCondition, right: _TranslatedCondition) -> _TranslatedCondition:
    if left.tree is None or right.tree is None:
        return _UNTRANSLATABLE
    tree = exp.Or(this=_inside(left.tree, exp.And), expression=_inside(right.tree, exp.And))
    return _TranslatedCondition(tree, left.is_exact and right.is_exact)


def _not(said: _TranslatedCondition) -> _TranslatedCondition:
    if said.tree is None or not said.is_exact:
        return _UNTRANSLATABLE
    return replace(said, tree=exp.Not(this=_inside(said.tree, exp.Connector)))


def _inside(tree: exp.Expr, other: type[exp.Expr]) -> exp.Expr:
    """Return an operand of a condition, in parentheses where precedence or readability needs them."""
    return exp.paren(tree) if isinstance(tree, other) else tree


def _compared_column(column: RemoteColumn) -> exp.Expr:
    match column.compares:
        case Compares.LABELS:
            return _cast(_column(column), "text")
        case Compares.COLLATED:
            return exp.Collate(this=_column(column), expression=_identifier("binary"))
        case _:
            return _column(column)


def _literal(column: RemoteColumn, scalar: pa.Scalar) -> exp.Expr | None:
    """Return the literal to compare a column with; None if it must not be sent."""
    maker = _LITERALS.get(column.compares)
    if maker is None:
        return None
    try:
        if pa.types.is_timestamp(scalar.type):
            scalar = scalar.cast(pa.timestamp("us", scalar.type.tz))
        value = scalar.as_py()
    except (ValueError, OverflowError):  # finer than microseconds, or beyond the range of Python's types
        return None
    return None if value is None else maker(value)


def _boolean(value: Any) -> exp.Expr | None:
    return exp.Boolean(this=value) if isinstance(value, bool) else None


def _integer(value: Any) -> exp.Expr | None:
    return exp.Literal.number(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _decimal(value: Any) -> exp.Expr | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    return exp.Literal.number(format(Decimal(value), "f"))


def _floating(value: Any, kind: str) -> exp.Expr | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    shown = repr(float(value)) if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
    return _cast(exp.Literal.string(shown), kind)


def _single(value: Any) -> exp.Expr | None:
    return _floating(value, "real")


def _double(value: Any) -> exp.Expr | None:
    return _floating(value, "double precision")


def _text(value: Any) -> exp.Expr | None:
    return exp.Literal.string(value) if isinstance(value, str) and "\0" not in value else None


def _padded(value: Any) -> exp.Expr | None:
    return _text(value) if isinstance(value, str) and not value.endswith(" ") else None


def _uuid(value: Any) -> exp.Expr | None:
    return _cast(exp.Literal.string(value), "uuid") if isinstance(value, str) and _UUID.fullmatch(value) else None


def _date(value: Any) -> exp.Expr | None:
    if isinstance(value, datetime) or not isinstance(value, date):
        return None
    return _cast(exp.Literal.string(value.isoformat()), "date")


def _timestamp(value: Any) -> exp.Expr | None:
    if not isinstance(value, datetime) or value.tzinfo is not None:
        return None
    return _cast(exp.Literal.string(value.isoformat(" ")), "timestamp")


def _instant(value: Any) -> exp.Expr | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return _cast(exp.Literal.string(value.isoformat(" ")), "timestamptz")


_LITERALS = {
    Compares.BOOLEANS: _boolean,
    Compares.INTEGERS: _integer,
    Compares.DECIMALS: _decimal,
    Compares.SINGLES: _single,
    Compares.DOUBLES: _double,
    Compares.TEXTS: _text,
    Compares.COLLATED: _text,
    Compares.PADDED: _padded,
    Compares.LABELS: _text,
    Compares.UUIDS: _uuid,
    Compares.DATES: _date,
    Compares.TIMESTAMPS: _timestamp,
    Compares.INSTANTS: _instant,
}
