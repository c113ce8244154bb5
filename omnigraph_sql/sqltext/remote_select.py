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
    """How the values of a column compare over there, as far as it is the way they compare here."""

    NOTHING = "nothing"
    """Another way, or not at all; whether there is a value is said the same way all the same."""
    NOT_EVEN_NULL = "not even null"
    """As above, and `IS NULL` means something else, too."""
    BOOLEANS = "booleans"
    INTEGERS = "integers"
    DECIMALS = "decimals"
    SINGLES = "singles"
    DOUBLES = "doubles"
    TEXTS = "texts"
    """Alike or not. Their order depends on the language of the database."""
    COLLATED = "collated"
    """Texts that a collation may order in another way or take for equal, and that compare as here when it is set aside."""
    PADDED = "padded"
    """Texts filled up with blanks, which do not count when they are compared."""
    LABELS = "labels"
    """Values of an enumeration: a text that is none of them is an error there."""
    UUIDS = "uuids"
    """Shown as texts in lower case; a text that is none is an error there."""
    DATES = "dates"
    TIMESTAMPS = "timestamps"
    INSTANTS = "instants"


_UNORDERED = {Compares.TEXTS, Compares.PADDED, Compares.LABELS, Compares.UUIDS, Compares.BOOLEANS}


@dataclass(frozen=True)
class RemoteColumn:
    """A column over there: its name, how it compares, and how it travels."""

    name: str
    compares: Compares
    cast: str | None = None
    """The type it is cast to first, if any."""
    array_of: str | None = None
    """The type of the elements of an array, which must have one dimension."""


@dataclass(frozen=True)
class RemoteTableRef:
    """A table over there."""

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
    """Whether its rows are those that were wanted, and not more."""


def remote_count(table: RemoteTableRef) -> RemoteQuery:
    """A statement that counts the rows of a table."""
    return RemoteQuery(_render(exp.select(exp.Count(this=exp.Star())).from_(_source(table)), table), is_exact=True)


def remote_select(
    table: RemoteTableRef, columns: Sequence[str], predicate: Predicate | None, limit: int | None
) -> RemoteQuery:
    """A statement for columns of the rows that satisfy a condition, or of more rows; for `limit` of them if it is exact."""
    known = {column.name: column for column in table.columns}
    query = exp.select(*(_output(known[name]) for name in columns)).from_(_source(table))
    where = _Said(None, is_exact=True) if predicate is None else _Translation(known).said(predicate)
    if where.tree is not None:
        query = query.where(where.tree)
    if limit is not None and where.is_exact:
        query = query.limit(limit)
    return RemoteQuery(_render(query, table), where.is_exact)


def text_literal(value: str) -> str:
    """A text as a literal that Postgres and DuckDB understand.

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
    """An array, or an error of the database if it has several dimensions: drivers would string them together in silence."""
    dimensions = exp.Coalesce(this=exp.func("array_ndims", _column(column)), expressions=[exp.Literal.number(1)])
    text = exp.DPipe(this=exp.Literal.string(_DIMENSIONS), expression=_cast(_column(column), "text"))
    refused = _cast(exp.paren(text), f"{element}[]")
    return exp.case().when(exp.EQ(this=dimensions, expression=exp.Literal.number(1)), _column(column)).else_(refused)


def _cast(what: exp.Expr, kind: str) -> exp.Cast:
    return exp.Cast(this=what, to=exp.DataType.build(kind, dialect="postgres"))


@dataclass(frozen=True)
class _Said:
    """A condition in SQL, and whether it says all that it stands for; without a tree nothing can be said."""

    tree: exp.Expr | None
    is_exact: bool


_UNSAID = _Said(None, is_exact=False)


class _Translation:
    """Turns a condition on the columns of a table into SQL."""

    def __init__(self, columns: Mapping[str, RemoteColumn]) -> None:
        self._columns = columns

    def said(self, predicate: Predicate) -> _Said:
        """As much of a condition as can be said."""
        match predicate:
            case Both(left, right):
                return _both(self.said(left), self.said(right))
            case Either(left, right):
                return _either(self.said(left), self.said(right))
            case Not(operand):
                return _not(self.said(operand))
            case IsNull(PredicateColumn(name)) if self._columns[name].compares is not Compares.NOT_EVEN_NULL:
                return _Said(exp.Is(this=_column(self._columns[name]), expression=exp.Null()), is_exact=True)
            case Comparison(operator, PredicateColumn(name), PredicateValue(scalar)):
                return self._compared(operator, self._columns[name], scalar)
            case Comparison(operator, PredicateValue(scalar), PredicateColumn(name)):
                return self._compared(COMPARATORS[operator].mirrored, self._columns[name], scalar)
            case IsIn(PredicateColumn(name), values):
                return self._listed(self._columns[name], values)
            case PredicateColumn(name) if self._columns[name].compares is Compares.BOOLEANS:
                return _Said(_column(self._columns[name]), is_exact=True)
            case PredicateValue(scalar) if pa.types.is_boolean(scalar.type):
                return _Said(exp.Null() if scalar.as_py() is None else exp.Boolean(this=scalar.as_py()), is_exact=True)
            case _:
                return _UNSAID

    def _compared(self, operator: ComparisonOperator, column: RemoteColumn, scalar: pa.Scalar) -> _Said:
        if operator not in ("=", "!=") and column.compares in _UNORDERED:
            return _UNSAID
        value = _literal(column, scalar)
        if value is None:
            return _UNSAID
        return _Said(COMPARISON_NODES[operator](this=_compared_column(column), expression=value), is_exact=True)

    def _listed(self, column: RemoteColumn, values: pa.Array) -> _Said:
        literals = [_literal(column, value) for value in values]
        if not literals or None in literals:
            return _UNSAID
        return _Said(exp.In(this=_compared_column(column), expressions=literals), is_exact=True)


def _both(left: _Said, right: _Said) -> _Said:
    if left.tree is None or right.tree is None:
        return replace(left if right.tree is None else right, is_exact=False)
    tree = exp.And(this=_inside(left.tree, exp.Or), expression=_inside(right.tree, exp.Or))
    return _Said(tree, left.is_exact and right.is_exact)


def _either(left: _Said, right: _Said) -> _Said:
    if left.tree is None or right.tree is None:
        return _UNSAID
    tree = exp.Or(this=_inside(left.tree, exp.And), expression=_inside(right.tree, exp.And))
    return _Said(tree, left.is_exact and right.is_exact)


def _not(said: _Said) -> _Said:
    if said.tree is None or not said.is_exact:
        return _UNSAID
    return replace(said, tree=exp.Not(this=_inside(said.tree, exp.Connector)))


def _inside(tree: exp.Expr, other: type[exp.Expr]) -> exp.Expr:
    """A part of a condition, in parentheses where it would be read another way or be hard to read."""
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
    """A value to compare a column with; None if it must not be sent."""
    maker = _LITERALS.get(column.compares)
    if maker is None:
        return None
    try:
        if pa.types.is_timestamp(scalar.type):
            scalar = scalar.cast(pa.timestamp("us", scalar.type.tz))
        value = scalar.as_py()
    except (ValueError, OverflowError):  # finer than microseconds, or beyond what Python knows
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
