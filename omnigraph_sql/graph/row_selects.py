"""Queries that compute what a statement writes: its parts of the text, put around the table that it writes to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

import pyarrow as pa

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.graph.write_targets import StatementContext, WriteTarget
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.sqltext.write_statements import InsertStatement, MergeClause, MergeIntoStatement, SetClause

_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_LONGEST: Final = 80


def exact(value: str, kind: pa.DataType) -> str:
    """An expression; a number for a column of decimals is one to the engine too, which may take it for a floating one.

    >>> exact("1.005", pa.decimal128(6, 2)), exact("1.005", pa.float64()), exact("a + 1.5", pa.decimal128(6, 2))
    ("CAST('1.01' AS DECIMAL(6, 2))", '1.005', 'a + 1.5')
    """
    text = value.strip()
    if not pa.types.is_decimal(kind) or len(text) > _LONGEST or _NUMBER.fullmatch(text) is None:
        return value
    number = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, Context(prec=2 * _LONGEST))
    if len(number.as_tuple().digits) > kind.precision:
        return value  # it does not fit, and the error says so
    return f"CAST('{number:f}' AS DECIMAL({kind.precision}, {kind.scale}))"


def select(
    prefix: str, items: Iterable[str], sources: str, conditions: Iterable[str | None], *, distinct: bool = False
) -> str:
    """A query. Parts of the statement may end with a comment, so each stands on lines of its own."""
    word = "SELECT DISTINCT" if distinct else "SELECT"
    where = [f"({condition}\n)" for condition in conditions if condition is not None]
    parts = [prefix, f"{word} {', '.join(items)}", f"FROM {sources}", f"WHERE {' AND '.join(where)}" if where else ""]
    return "\n".join(part for part in parts if part)


def default_text(context: StatementContext, target: WriteTarget, column: str) -> str:
    """The default of a column as an expression of the engine."""
    if target.table.type is not None:
        return _type_default(target, column)
    default = target.rules.defaults.get(column)
    if default is None:
        return "NULL"
    return f"({exact(context.translated(default), target.schema.field(column).type)}\n)"


def _type_default(target: WriteTarget, column: str) -> str:
    assert target.table.type is not None
    prop = target.table.type.properties.get(column)
    if prop is not None and prop.default is not None:
        hint = f"leave the column `{column}` away: it then gets its default"
        raise BadRequest(f"DEFAULT cannot stand for the default of `{target.location.text}.{column}` here", hint=hint)
    return "NULL"


def set_values(context: StatementContext, target: WriteTarget, sets: Sequence[SetClause]) -> dict[str, str]:
    """The new values by column."""
    values: dict[str, str] = {}
    for clause in sets:
        column = target.column(clause.column)
        if column in values:
            raise BadRequest(f"the column `{column}` is set twice", hint="set it once")
        kind = target.schema.field(column).type
        value = default_text(context, target, column) if clause.value is None else exact(clause.value, kind)
        values[column] = f"({value}\n)"
    return values


def updated_items(target: WriteTarget, alias: str, values: dict[str, str]) -> list[str]:
    """All columns of the rows that an update changes, in the order of the table."""
    return [
        f"{values.get(name) or quoted(alias, name)} AS {quoted(f'c{number}')}"
        for number, name in enumerate(target.schema.names)
    ]


def insert_query(context: StatementContext, target: WriteTarget, statement: InsertStatement) -> str:
    """The query of an insert, with the defaults of its values."""
    assert statement.query is not None
    has_defaults = any(value is None for values in statement.tuples for value in values)
    if not has_defaults and not any(pa.types.is_decimal(kind) for kind in target.schema.types if statement.tuples):
        return f"{statement.prefix}\n{statement.query}"
    columns = insert_columns(target, statement, len(statement.tuples[0])) if statement.tuples else []
    kinds = [target.schema.field(name).type for name in columns]
    tuples = []
    for values in statement.tuples:
        if len(values) != len(columns):
            raise wrong_count(target, len(values), len(columns))
        filled = (
            default_text(context, target, name) if value is None else exact(value, kind)
            for value, name, kind in zip(values, columns, kinds, strict=True)
        )
        tuples.append(f"({', '.join(f'{value}' for value in filled)})")
    return f"{statement.prefix}\nVALUES {', '.join(tuples)}"


def insert_columns(target: WriteTarget, statement: InsertStatement, count: int) -> list[str]:
    """The columns that an insert gives values for."""
    if statement.columns:
        return columns_once(target, statement.columns)
    names: list[str] = target.schema.names
    if target.table.type is not None and count == len(names) - 1:
        return names[1:]  # the id is computed
    return names


def columns_once(target: WriteTarget, names: Iterable[str]) -> list[str]:
    """The columns of some names. Raises if one of them stands there twice."""
    columns = [target.column(name) for name in names]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise BadRequest(f"the column `{twice}` stands twice in the list", hint="name it once")
    return columns


def wrong_count(target: WriteTarget, actual: int, expected: int) -> BadRequest:
    """The error for rows with too many or too few values."""
    text = f"`{target.location.text}` takes {expected} values here, and the rows have {actual}"
    return BadRequest(text, hint="name the columns: INSERT INTO TABLE (COLUMNS) …")


# Merge ---------------------------------------------------------------------------------------------------------------


class MergeSelects:
    """The queries of a merge: one for each clause, over the rows that no earlier clause of its kind took."""

    def __init__(self, context: StatementContext, target: WriteTarget, statement: MergeIntoStatement) -> None:
        self._context = context
        self._target = target
        self._statement = statement
        self._alias = quoted(statement.alias)
        self._whole: list[str] | None = None

    def conditions(self, clause: MergeClause) -> list[str | None]:
        """What rows of a clause satisfy, besides matching."""
        clauses = self._statement.clauses
        earlier = [other for other in clauses[: clauses.index(clause)] if other.matches == clause.matches]
        guards = [f"NOT COALESCE(({other.condition or 'TRUE'}\n), FALSE)" for other in earlier]
        return [*guards, clause.condition]

    def updated(self, clause: MergeClause, first: Sequence[str]) -> str:
        """The rows that an update changes, with other columns of the target before them."""
        sets = clause.sets
        if clause.is_whole:
            names = [name for name in self._source_columns() if name in self._target.schema.names]
            sets = tuple(SetClause(name, quoted(self._statement.source_alias, name)) for name in names)
        values = set_values(self._context, self._target, sets)
        items = [*first, *updated_items(self._target, self._statement.alias, values)]
        return self._over_target(clause, items)

    def removed(self, clause: MergeClause, items: Sequence[str]) -> str:
        """The rows that a delete removes."""
        return self._over_target(clause, items)

    def inserted(self, clause: MergeClause) -> tuple[list[str], str]:
        """The columns that an insert gives values for, and the query of its rows."""
        target, statement = self._target, self._statement
        if clause.is_whole:
            columns = [name for name in self._source_columns() if name in target.schema.names]
            values: list[str | None] = [quoted(statement.source_alias, name) for name in columns]
        else:
            given_names = clause.columns or (target.schema.names if clause.values else ())
            columns, values = columns_once(target, given_names), list(clause.values)
        if target.table.type is not None and not clause.columns and len(values) == len(columns) - 1:
            columns = columns[1:]
        if len(columns) != len(values):
            raise wrong_count(target, len(values), len(columns))
        texts = {
            name: default_text(self._context, target, name)
            if value is None
            else exact(value, target.schema.field(name).type)
            for name, value in zip(columns, values, strict=True)
        }
        if target.table.type is None:
            texts |= {name: default_text(self._context, target, name) for name in target.schema.names if name not in texts}
        items = [f"({value}\n) AS {quoted(f'c{number}')}" for number, value in enumerate(texts.values())]
        matching = f"SELECT 1 FROM {target.sql()} AS {self._alias} WHERE ({statement.condition}\n)"
        conditions = [f"NOT EXISTS ({matching})", *self.conditions(clause)]
        return list(texts), select(statement.prefix, items, statement.source, conditions)

    def _over_target(self, clause: MergeClause, items: Sequence[str]) -> str:
        statement = self._statement
        own = f"{self._target.sql()} AS {self._alias}"
        if clause.matches == "both":
            sources = f"{own} JOIN {statement.source} ON ({statement.condition}\n)"
            return select(statement.prefix, items, sources, self.conditions(clause))
        matching = f"SELECT 1 FROM {statement.source} WHERE ({statement.condition}\n)"
        conditions = [f"NOT EXISTS ({matching})", *self.conditions(clause)]
        return select(statement.prefix, items, own, conditions)

    def _source_columns(self) -> list[str]:
        if self._whole is None:
            text = select(self._statement.prefix, ["*"], self._statement.source, ["FALSE"])
            self._whole = list(self._context.run(text).schema.names)
        return self._whole
