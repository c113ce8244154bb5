"""The grammar of statements that define: create, drop and alter tables, views and schemas, and comments on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.sqltext.statement_cursor import StatementCursor
from omnigraph_sql.sqltext.write_statements import (
    AddColumnAction,
    AddConstraintAction,
    AlterAction,
    AlterStatement,
    ColumnClause,
    ColumnRuleAction,
    ColumnTypeAction,
    CommentStatement,
    ConstraintClause,
    CreateSchemaStatement,
    CreateTableStatement,
    CreateViewStatement,
    DropColumnAction,
    DropConstraintAction,
    DropSchemaStatement,
    DropStatement,
    RelationKind,
    RenameAction,
    ScriptStatement,
)

_IN_COLUMNS: Final = (
    "not",
    "null",
    "unique",
    "primary",
    "check",
    "default",
    "constraint",
    "references",
    "collate",
    "generated",
)
_CONSTRAINTS: Final = ("constraint", "primary", "unique", "check", "foreign")
_REFERENCE_WORDS: Final = ("on", "delete", "update", "no", "action", "restrict", "cascade", "set", "match", "full", "simple")


def create_statement(cursor: StatementCursor, place: Mapping[str, Any]) -> ScriptStatement:
    """A statement after `create`."""
    replaces = cursor.accept("or", "replace")
    is_temporary = cursor.accept_any("temp", "temporary") is not None
    cursor.accept("recursive")
    if cursor.accept("table"):
        return _create_table(cursor, {**place, "is_temporary": is_temporary}, replaces)
    if cursor.accept("view"):
        exists = cursor.accept("if", "not", "exists")
        name = cursor.qualified_name("the name of a view")
        names = cursor.names() if cursor.has("(") else ()
        cursor.expect("as")
        query = cursor.part("a query")
        return CreateViewStatement(
            **place, name=name, names=names, query=query, replace=replaces, if_not_exists=exists, is_temporary=is_temporary
        )
    if is_temporary:
        raise BadRequest("only tables and views can be temporary", hint="write CREATE TEMPORARY TABLE or VIEW")
    if cursor.accept("schema"):
        exists = cursor.accept("if", "not", "exists")
        name = cursor.qualified_name("the name of a schema")
        cursor.end()
        return CreateSchemaStatement(**place, name=name, if_not_exists=exists)
    if cursor.is_done:
        cursor.fail("TABLE, VIEW, SCHEMA, BRANCH or TAG")
    what = cursor.word().upper()
    hint = _HINTS.get(what.lower(), "tables, views, schemas, branches and tags can be created")
    raise BadRequest(f"CREATE {what} is not supported", hint=hint)


_HINTS: Final[Mapping[str, str]] = {
    "index": "Graph.ensure_indices builds the indexes of a graph",
    "unique": "declare UNIQUE in CREATE TABLE, or with ALTER TABLE … ADD UNIQUE",
    "materialized": "write CREATE TABLE … AS, or CREATE VIEW",
    "external": "register the source with Graph.register",
    "function": "register a table with its results, or write the expression in the query",
    "sequence": "compute the numbers in the query, with row_number()",
    "type": "write the type of the column in full",
}


def _create_table(cursor: StatementCursor, place: Mapping[str, Any], replaces: bool) -> CreateTableStatement:
    common: dict[str, Any] = {**place, "replace": replaces, "if_not_exists": cursor.accept("if", "not", "exists")}
    if replaces and common["if_not_exists"]:
        raise BadRequest("OR REPLACE and IF NOT EXISTS exclude each other", hint="use one of them")
    common["name"] = cursor.qualified_name()
    if cursor.has("(") and _has_names_only(cursor):
        common["names"] = cursor.names()
        cursor.expect("as")
        return _create_as(cursor, common)
    if cursor.accept("as"):
        return _create_as(cursor, common)
    columns: list[ColumnClause] = []
    constraints: list[ConstraintClause] = []

    def member() -> None:
        if cursor.word() in _CONSTRAINTS:
            constraints.append(constraint(cursor))
        elif cursor.has("like"):
            raise BadRequest("LIKE is not supported in CREATE TABLE", hint="write CREATE TABLE … AS SELECT … LIMIT 0")
        else:
            columns.append(column(cursor))

    cursor.list_of(member)
    if cursor.word() in ("with", "partition", "partitioned", "using", "location", "inherits", "tablespace"):
        word = cursor.word().upper()
        raise BadRequest(f"{word} is not supported in CREATE TABLE", hint="the store decides how a table is kept")
    cursor.end()
    if not columns:
        raise BadRequest("the table has no columns", hint="declare one at least")
    return CreateTableStatement(**common, columns=tuple(columns), constraints=tuple(constraints))


def _has_names_only(cursor: StatementCursor) -> bool:
    """True for a list of names without types, before `as`."""
    ahead = 1
    while cursor.word(ahead + 1) == ",":
        ahead += 2
    return cursor.word(ahead + 1) == ")" and cursor.word(ahead + 2) == "as"


def _create_as(cursor: StatementCursor, common: dict[str, Any]) -> CreateTableStatement:
    start = cursor.at
    if cursor.is_done:
        cursor.fail("a query")
    cursor.skip_to_end_of_query()
    query = cursor.between(start, cursor.at)
    with_data = True
    if cursor.accept("with"):
        with_data = not cursor.accept("no")
        cursor.expect("data")
    cursor.end()
    return CreateTableStatement(**common, query=query, with_data=with_data)


def column(cursor: StatementCursor) -> ColumnClause:
    """`NAME TYPE [not null] [default …] [unique] [primary key] [check (…)] [references …]`."""
    name = cursor.name("the name of a column")
    if cursor.is_done or cursor.word() in (",", ")") or cursor.word() in _IN_COLUMNS:
        cursor.fail(f"the type of the column `{name}`")
    clause = ColumnClause(name, cursor.part("a type", ",", ")", *_IN_COLUMNS))
    label = None
    while cursor.word() not in (",", ")", ""):
        if cursor.accept("constraint"):
            label = cursor.name("the name of a constraint")
        elif cursor.accept("not", "null"):
            clause = replace(clause, is_required=True)
        elif cursor.accept("null"):
            pass
        elif cursor.accept("default"):
            default = cursor.part("an expression", ",", ")", *(word for word in _IN_COLUMNS if word != "null"))
            clause = replace(clause, default=default)
        elif cursor.has("generated") or cursor.has("collate"):
            word = cursor.word().upper()
            raise BadRequest(f"{word} is not supported for a column", hint="compute the value in the query")
        else:
            rule = _column_constraint(cursor, name, label)
            clause = replace(clause, constraints=(*clause.constraints, rule))
            label = None
    return clause


def _column_constraint(cursor: StatementCursor, name: str, label: str | None) -> ConstraintClause:
    if cursor.accept("unique"):
        return ConstraintClause(kind="unique", name=label, columns=(name,))
    if cursor.accept("primary", "key"):
        return ConstraintClause(kind="primary key", name=label, columns=(name,))
    if cursor.accept("check"):
        return ConstraintClause(kind="check", name=label, expression=cursor.brackets())
    if cursor.accept("references"):
        return _reference(cursor, label, (name,))
    return cursor.fail("a constraint")


def constraint(cursor: StatementCursor) -> ConstraintClause:
    """A constraint of a table."""
    name = cursor.name("the name of a constraint") if cursor.accept("constraint") else None
    if cursor.accept("primary", "key"):
        return ConstraintClause(kind="primary key", name=name, columns=cursor.names())
    if cursor.accept("unique"):
        return ConstraintClause(kind="unique", name=name, columns=cursor.names())
    if cursor.accept("check"):
        return ConstraintClause(kind="check", name=name, expression=cursor.brackets())
    if cursor.accept("foreign", "key"):
        columns = cursor.names()
        cursor.expect("references")
        return _reference(cursor, name, columns)
    return cursor.fail("PRIMARY KEY, UNIQUE, CHECK or FOREIGN KEY")


def _reference(cursor: StatementCursor, name: str | None, columns: tuple[str, ...]) -> ConstraintClause:
    table = cursor.qualified_name()
    others = cursor.names() if cursor.has("(") else ()
    while cursor.accept_any(*_REFERENCE_WORDS):
        pass
    return ConstraintClause(kind="foreign key", name=name, columns=columns, references=table, referenced_columns=others)


def drop_statement(cursor: StatementCursor, place: Mapping[str, Any]) -> ScriptStatement:
    """A statement after `drop`."""
    kind = cursor.accept_any("table", "view", "schema")
    if kind is None:
        if cursor.is_done:
            cursor.fail("TABLE, VIEW, SCHEMA, BRANCH or TAG")
        what = cursor.word().upper()
        raise BadRequest(f"DROP {what} is not supported", hint="tables, views, schemas, branches and tags can be dropped")
    exists = cursor.accept("if", "exists")
    names = [cursor.qualified_name(f"the name of a {kind}")]
    while kind != "schema" and cursor.accept(","):
        names.append(cursor.qualified_name(f"the name of a {kind}"))
    ending = cursor.accept_any("cascade", "restrict")
    cursor.end()
    if kind == "schema":
        return DropSchemaStatement(**place, name=names[0], if_exists=exists, cascade=ending == "cascade")
    return DropStatement(**place, kind=_relation(kind), names=tuple(names), if_exists=exists)


def _relation(word: str) -> RelationKind:
    return "view" if word == "view" else "table"


def alter_statement(cursor: StatementCursor, place: Mapping[str, Any]) -> AlterStatement:
    """A statement after `alter`."""
    kind = cursor.accept_any("table", "view")
    if kind is None:
        if cursor.is_done:
            cursor.fail("TABLE or VIEW")
        what = cursor.word().upper()
        raise BadRequest(f"ALTER {what} is not supported", hint="tables can be altered, and views renamed")
    exists = cursor.accept("if", "exists")
    name = cursor.qualified_name(f"the name of a {kind}")
    actions = [_action(cursor, _relation(kind))]
    while cursor.accept(","):
        actions.append(_action(cursor, _relation(kind)))
    cursor.end()
    if len(actions) > 1 and any(isinstance(action, RenameAction) for action in actions):
        raise BadRequest("RENAME stands alone in ALTER", hint="write a statement for each")
    return AlterStatement(**place, kind=_relation(kind), name=name, actions=tuple(actions), if_exists=exists)


def _action(cursor: StatementCursor, kind: RelationKind) -> AlterAction:
    if cursor.accept("rename"):
        if cursor.accept("to"):
            return RenameAction(cursor.name("the new name"))
        cursor.accept("column")
        old = cursor.name("the name of a column")
        cursor.expect("to")
        return RenameAction(cursor.name("the new name"), old)
    if kind == "view":
        cursor.fail("RENAME TO", hint="define the view anew with CREATE OR REPLACE VIEW")
    if cursor.accept("add"):
        if cursor.word() in _CONSTRAINTS:
            return AddConstraintAction(constraint(cursor))
        cursor.accept("column")
        exists = cursor.accept("if", "not", "exists")
        return AddColumnAction(column(cursor), exists)
    if cursor.accept("drop"):
        if cursor.accept("constraint"):
            exists = cursor.accept("if", "exists")
            return DropConstraintAction(cursor.name("the name of a constraint"), exists)
        cursor.accept("column")
        exists = cursor.accept("if", "exists")
        name = cursor.name("the name of a column")
        cursor.accept_any("cascade", "restrict")
        return DropColumnAction(name, exists)
    if cursor.accept("alter"):
        return _column_action(cursor)
    return cursor.fail("RENAME, ADD, DROP or ALTER")


def _column_action(cursor: StatementCursor) -> AlterAction:
    cursor.accept("column")
    name = cursor.name("the name of a column")
    is_set = cursor.accept("set")
    if not is_set and cursor.accept("drop"):
        rule = "not null" if cursor.accept("not", "null") else "default"
        if rule == "default":
            cursor.expect("default")
        return ColumnRuleAction(name, "not null" if rule == "not null" else "default", None, False)
    if is_set and cursor.accept("not", "null"):
        return ColumnRuleAction(name, "not null")
    if is_set and cursor.accept("default"):
        return ColumnRuleAction(name, "default", cursor.part("an expression", ","))
    cursor.accept("data")
    cursor.expect("type")
    type_text = cursor.part("a type", ",", "using")
    using = cursor.part("an expression", ",") if cursor.accept("using") else None
    return ColumnTypeAction(name, type_text, using)


def comment_statement(cursor: StatementCursor, place: Mapping[str, Any]) -> CommentStatement:
    """A statement after `comment`."""
    cursor.expect("on")
    kind = cursor.accept_any("table", "view", "column", "schema")
    if kind is None:
        cursor.fail("TABLE, VIEW, COLUMN or SCHEMA")
    parts = [cursor.name()]
    while cursor.accept("."):
        parts.append(cursor.name())
    cursor.expect("is")
    comment = cursor.text_value()
    cursor.end()
    if kind == "column" and len(parts) < 2:
        raise BadRequest("a column needs the name of its table", hint="write COMMENT ON COLUMN TABLE.COLUMN IS '…'")
    return CommentStatement(**place, kind=kind, name=tuple(parts), comment=comment)  # type: ignore[arg-type]
