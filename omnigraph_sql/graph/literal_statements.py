"""Statements about rows whose values are literals: they need no engine.

Rows that are inserted into tables without constraints are staged together, later.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType, entity_id
from omnigraph_sql.graph.column_values import TargetColumn
from omnigraph_sql.graph.row_selects import insert_columns, wrong_count
from omnigraph_sql.graph.write_targets import KnownKeys, StatementContext, WriteTarget
from omnigraph_sql.sqltext.write_statements import DeleteStatement, InsertStatement, UpdateStatement

_LITERAL: Final = re.compile(
    r"""(?P<whole>[+-]?[0-9]{1,18})|(?P<fraction>[+-]?[0-9]{1,8}\.[0-9]{1,7})|(?P<text>'(?:[^']|'')*')|\$(?P<parameter>\w+)
    |(?P<null>null)|(?P<true>true)|(?P<false>false)""",
    re.VERBOSE | re.IGNORECASE,
)
_AND: Final = re.compile(r"\s+and\s+", re.IGNORECASE)
_EQUALITY: Final = re.compile(
    r"""(?:(?P<alias>[a-z_]\w*)\.)?(?P<column>[a-z_]\w*)\s*=\s*(?P<value>\$\w+|'(?:[^']|'')*'|[+-]?[0-9]+)""",
    re.IGNORECASE,
)
_MOST_KNOWN: Final = 50_000
"""The keys of larger tables are looked up by an engine."""
_KINDS: Final = {int: pa.int64(), str: pa.string(), bool: pa.bool_(), float: pa.float64(), type(None): pa.null()}


class NoLiteral(Exception):
    """Raised for what only an engine can compute."""


def literal_rows(context: StatementContext, target: WriteTarget, statement: InsertStatement) -> pa.RecordBatch | None:
    """The rows of an insert, under the names of columns; None for one that an engine has to compute."""
    if not statement.tuples or statement.conflict is not None or statement.by_name or statement.prefix:
        return None
    try:
        return _rows(target, statement, context.params)
    except NoLiteral:
        return None


def insert_literals(context: StatementContext, target: WriteTarget, statement: InsertStatement) -> int | None:
    """Insert into a relational table, and return the number of rows; None for an insert that an engine has to run."""
    rules = target.rules
    if any(rules.checks()):
        return None
    rows = literal_rows(context, target, statement)
    if rows is None or any(name not in rows.schema.names for name in rules.defaults):
        return None
    names = rows.schema.names
    nulls = pa.nulls(rows.num_rows)
    arrays = [
        TargetColumn(target.table_key, column).taken(rows.column(column.name) if column.name in names else nulls, 1)
        for column in target.schema
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=target.schema)
    if not _are_new(context, target, batch):
        return None  # the engine tells which key is repeated
    context.writes.append_later(target.table_key, batch)
    return len(statement.tuples)


def _are_new(context: StatementContext, target: WriteTarget, rows: pa.RecordBatch) -> bool:
    """True if the rows are known to repeat no unique key, and note their keys; False if that has to be found out."""
    keys = [constraint.columns for constraint in target.rules.unique_keys()]
    if not keys:
        return True
    known = context.keys.get(target.table_key)
    if known is None or known.changes != context.writes.changes_of(target.table_key):
        known = _known_keys(context, target, keys)
        if known is None:
            return False
        context.keys[target.table_key] = known
    incoming = {columns: _tuples(rows, columns) for columns in keys}
    for columns, tuples in incoming.items():
        if len(set(tuples)) < len(tuples) or not known.values[columns].isdisjoint(tuples):
            return False
    for columns, tuples in incoming.items():
        values = known.values[columns]
        values |= set(tuples)
    return True


def _known_keys(context: StatementContext, target: WriteTarget, keys: Sequence[tuple[str, ...]]) -> KnownKeys | None:
    """The keys of a table that is not large; None for other tables, and for keys whose values Python compares otherwise."""
    entry = context.snapshot.entries.get(target.table_key)
    names = list(dict.fromkeys(name for columns in keys for name in columns))
    kinds = [target.schema.field(name).type for name in names]
    if entry is None or entry.row_count > _MOST_KNOWN or not all(map(_is_exact, kinds)):
        return None
    changes = context.writes.changes_of(target.table_key)
    storage = context.store.storage
    values: dict[tuple[str, ...], set[tuple[Any, ...]]] = {columns: set() for columns in keys}
    for batch in storage.scan(storage.open(entry), names):
        for columns in keys:
            values[columns] |= set(_tuples(batch, columns))
    return KnownKeys(changes, values)


def _is_exact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind))


def _tuples(rows: pa.RecordBatch, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The values of columns in each row, without rows that lack one."""
    tuples = zip(*(rows.column(rows.schema.get_field_index(name)).to_pylist() for name in columns), strict=True)
    return [values for values in tuples if None not in values]


@dataclass(frozen=True)
class LiteralChange:
    """An update or a delete of one entity, which its condition names by its key."""

    entity_id: str
    values: Mapping[str, Any]
    """The new values by column."""


def literal_change(
    context: StatementContext, target: WriteTarget, statement: UpdateStatement | DeleteStatement
) -> LiteralChange | None:
    """The change that a statement makes to a type; None for one that an engine has to compute."""
    type_ = target.table.type
    if type_ is None or statement.condition is None or statement.sources is not None or statement.prefix:
        return None
    try:
        entity_id = _entity_id(type_, _equalities(target, statement, context.params))
        sets = statement.sets if isinstance(statement, UpdateStatement) else ()
        values = {
            target.column(clause.column): _value(
                clause.value, target.schema.field(target.column(clause.column)).type, context.params
            )
            for clause in sets
        }
    except NoLiteral:
        return None
    return LiteralChange(entity_id, values) if len(values) == len(sets) else None


def _equalities(
    target: WriteTarget, statement: UpdateStatement | DeleteStatement, params: Mapping[str, Any]
) -> dict[str, Any]:
    """The values that a condition requires of columns."""
    assert statement.condition is not None
    required: dict[str, Any] = {}
    for part in _AND.split(statement.condition):
        equality = _EQUALITY.fullmatch(part.strip())
        if equality is None or (equality["alias"] or statement.alias).lower() != statement.alias.lower():
            raise NoLiteral
        name = equality["column"]
        if name not in target.schema.names or name in required:
            raise NoLiteral
        required[name] = _value(equality["value"], target.schema.field(name).type, params)
    return required


def _entity_id(type_: NodeType | EdgeType, required: Mapping[str, Any]) -> str:
    """The id of the only entity that can have some values."""
    if required.keys() == {"id"} and isinstance(required["id"], str):
        return required["id"]
    if not isinstance(type_, NodeType) or type_.key is None or required.keys() != set(type_.key):
        raise NoLiteral
    for name, value in required.items():
        if type_.properties[name].type.is_list or type_.properties[name].type.scalar != "String" or type(value) is not str:
            raise NoLiteral
    id_ = entity_id(type_, dict(required))
    if id_ is None:
        raise NoLiteral
    return id_


def _rows(target: WriteTarget, statement: InsertStatement, params: Mapping[str, Any]) -> pa.RecordBatch:
    tuples = statement.tuples
    columns = insert_columns(target, statement, len(tuples[0]))
    for values in tuples:
        if len(values) != len(tuples[0]):
            raise NoLiteral
    if len(columns) != len(tuples[0]):
        raise wrong_count(target, len(tuples[0]), len(columns))
    kinds = [target.schema.field(name).type for name in columns]
    arrays = [_array([_value(row[place], kind, params) for row in tuples]) for place, kind in enumerate(kinds)]
    return pa.RecordBatch.from_arrays(arrays, columns)


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
