"""The grammar of statements that change rows: insert, update, delete, merge and truncate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.sqltext.statement_cursor import StatementCursor
from omnigraph_sql.sqltext.write_statements import (
    ConflictClause,
    DeleteStatement,
    InsertStatement,
    MergeClause,
    MergeIntoStatement,
    SetClause,
    TruncateStatement,
    UpdateStatement,
)

_QUERY: Final = ("select", "with", "from", "table", "(", "pivot", "unpivot")
_RETURNING: Final = "run a SELECT afterwards, in the same script or transaction"


def insert_statement(cursor: StatementCursor, place: Mapping[str, Any], prefix: str) -> InsertStatement:
    """`insert into TABLE [as ALIAS] [(COLUMNS)] [by name] VALUES or QUERY [on conflict …]`."""
    if cursor.accept("or"):
        word = cursor.accept_any("replace", "ignore") or cursor.fail("REPLACE or IGNORE")
        hint = f"write ON CONFLICT DO {'UPDATE SET …' if word == 'replace' else 'NOTHING'}"
        raise BadRequest(f"INSERT OR {word.upper()} is not supported", hint=hint)
    if cursor.accept("overwrite"):
        raise BadRequest("INSERT OVERWRITE is not supported", hint="write CREATE OR REPLACE TABLE … AS, or TRUNCATE first")
    cursor.expect("into")
    table = cursor.qualified_name()
    alias = cursor.name("an alias") if cursor.accept("as") else table[-1]
    columns: tuple[str, ...] = ()
    if cursor.has("(") and cursor.word(1) not in ("select", "with", "from", "values", "table", "("):
        columns = cursor.names()
    by_name = cursor.accept("by", "name")
    if not by_name:
        cursor.accept("by", "position")
    if by_name and columns:
        raise BadRequest("BY NAME takes the columns from the query", hint="leave the list of columns away")
    common = {**place, "table": table, "alias": alias, "prefix": prefix, "columns": columns}
    if cursor.accept("default", "values"):
        return InsertStatement(**common, conflict=_conflict(cursor))
    if cursor.has("values"):
        tuples, query = _values(cursor)
        if by_name:
            raise BadRequest("VALUES have no names", hint="write the list of columns, or a SELECT with aliases")
        return InsertStatement(**common, query=query, tuples=tuples, conflict=_conflict(cursor))
    if cursor.word() not in _QUERY:
        cursor.fail("VALUES or a query")
    start = cursor.at
    cursor.skip_to(("on", "conflict"), "returning")
    query = cursor.between(start, cursor.at)
    return InsertStatement(**common, query=query, by_name=by_name, conflict=_conflict(cursor))


def _values(cursor: StatementCursor) -> tuple[tuple[tuple[str | None, ...], ...], str]:
    """The tuples after `values`, and their text."""
    start = cursor.at
    cursor.expect("values")
    tuples = [cursor.list_of(lambda: _value(cursor))]
    while cursor.accept(","):
        tuples.append(cursor.list_of(lambda: _value(cursor)))
    return tuple(tuples), cursor.between(start, cursor.at)


def _value(cursor: StatementCursor) -> str | None:
    """An expression; None for `default`."""
    if cursor.has("default") and cursor.word(1) in (",", ")", ""):
        cursor.expect("default")
        return None
    return cursor.part("an expression", ",", ")")


def _conflict(cursor: StatementCursor) -> ConflictClause | None:
    """`on conflict [(COLUMNS)] do nothing`, or `do update set … [where …]`; then the end of the statement."""
    clause = None
    if cursor.accept("on", "conflict"):
        columns = cursor.names() if cursor.has("(") else ()
        if cursor.has("on", "constraint"):
            raise BadRequest("ON CONFLICT ON CONSTRAINT is not supported", hint="name the columns: ON CONFLICT (a, b)")
        if cursor.accept("do", "nothing"):
            clause = ConflictClause(columns, ())
        else:
            cursor.expect("do", "update", "set")
            sets = _sets(cursor, "where", "returning")
            condition = cursor.part("a condition", "returning") if cursor.accept("where") else None
            clause = ConflictClause(columns, sets, condition)
    _finish(cursor)
    return clause


def _finish(cursor: StatementCursor) -> None:
    if cursor.has("returning"):
        raise BadRequest("RETURNING is not supported", hint=_RETURNING)
    cursor.end()


def update_statement(cursor: StatementCursor, place: Mapping[str, Any], prefix: str) -> UpdateStatement:
    """`update TABLE [as ALIAS] set … [from …] [where …]`."""
    table = cursor.qualified_name()
    alias = _alias(cursor, table[-1], "set")
    cursor.expect("set")
    sets = _sets(cursor, "from", "where", "returning")
    sources = cursor.part("a table", "where", "returning") if cursor.accept("from") else None
    condition = cursor.part("a condition", "returning") if cursor.accept("where") else None
    _finish(cursor)
    return UpdateStatement(**place, table=table, alias=alias, prefix=prefix, sets=sets, sources=sources, condition=condition)


def _alias(cursor: StatementCursor, name: str, *after: str) -> str:
    if cursor.accept("as"):
        return cursor.name("an alias")
    return name if cursor.is_done or cursor.word() in after else cursor.name("an alias")


def _sets(cursor: StatementCursor, *stops: str) -> tuple[SetClause, ...]:
    """`COLUMN = VALUE, (COLUMN, COLUMN) = (VALUE, VALUE)`."""
    sets = list(_set(cursor, stops))
    while cursor.accept(","):
        sets += _set(cursor, stops)
    names = [clause.column.lower() for clause in sets]
    twice = next((clause.column for clause in sets if names.count(clause.column.lower()) > 1), None)
    if twice is not None:
        raise BadRequest(f"the column `{twice}` is set twice", hint="set it once")
    return tuple(sets)


def _set(cursor: StatementCursor, stops: tuple[str, ...]) -> tuple[SetClause, ...]:
    if cursor.has("("):
        names = cursor.list_of(lambda: cursor.qualified_name("the name of a column")[-1])
        cursor.expect("=")
        cursor.accept("row")
        if cursor.word(1) in ("select", "with"):
            raise BadRequest("several columns cannot be set from one subquery", hint="use UPDATE … FROM, or one for each")
        values = cursor.list_of(lambda: _value(cursor))
        if len(names) != len(values):
            raise BadRequest(f"{len(names)} columns are set to {len(values)} values", hint="give one value for each")
        return tuple(SetClause(name, value) for name, value in zip(names, values, strict=True))
    name = cursor.qualified_name("the name of a column")[-1]
    cursor.expect("=")
    if cursor.has("default") and cursor.word(1) in (",", "", *stops):
        cursor.expect("default")
        return (SetClause(name, None),)
    return (SetClause(name, cursor.part("an expression", ",", *stops)),)


def delete_statement(cursor: StatementCursor, place: Mapping[str, Any], prefix: str) -> DeleteStatement:
    """`delete from TABLE [as ALIAS] [using …] [where …]`."""
    cursor.expect("from")
    table = cursor.qualified_name()
    alias = _alias(cursor, table[-1], "using", "where", "returning")
    sources = cursor.part("a table", "where", "returning") if cursor.accept("using") else None
    condition = cursor.part("a condition", "returning") if cursor.accept("where") else None
    _finish(cursor)
    return DeleteStatement(**place, table=table, alias=alias, prefix=prefix, sources=sources, condition=condition)


def truncate_statement(cursor: StatementCursor, place: Mapping[str, Any]) -> TruncateStatement:
    """`truncate [table] TABLE`."""
    cursor.accept("table")
    table = cursor.qualified_name()
    if cursor.has(","):
        raise BadRequest("TRUNCATE takes one table", hint="write a statement for each")
    cursor.end()
    return TruncateStatement(**place, table=table, alias=table[-1])


def merge_statement(cursor: StatementCursor, place: Mapping[str, Any], prefix: str) -> MergeIntoStatement:
    """`merge into TABLE [as ALIAS] using SOURCE [as ALIAS] on CONDITION when …`."""
    cursor.expect("into")
    table = cursor.qualified_name()
    alias = _alias(cursor, table[-1], "using")
    cursor.expect("using")
    source = f"({cursor.brackets()})" if cursor.has("(") else None
    name = table[-1]
    if source is None:
        start = cursor.at
        name = cursor.qualified_name()[-1]
        source = cursor.between(start, cursor.at)
        if cursor.has("("):
            source += f"({cursor.brackets()})"
    elif cursor.has("on"):
        cursor.fail("an alias for the query")
    source_alias = _alias(cursor, name, "on")
    names = f"({', '.join(quoted(column) for column in cursor.names())})" if cursor.has("(") else ""
    if source_alias.lower() == alias.lower():
        raise BadRequest(f"target and source of the merge are both called `{alias}`", hint="give one of them an alias")
    cursor.expect("on")
    condition = cursor.part("a condition", "when", "returning")
    clauses = []
    while cursor.accept("when"):
        clauses.append(_merge_clause(cursor))
    if not clauses:
        cursor.fail("WHEN MATCHED or WHEN NOT MATCHED")
    _finish(cursor)
    return MergeIntoStatement(
        **place,
        table=table,
        alias=alias,
        prefix=prefix,
        source=f"{source} AS {quoted(source_alias)}{names}",
        source_alias=source_alias,
        condition=condition,
        clauses=tuple(clauses),
    )


def _merge_clause(cursor: StatementCursor) -> MergeClause:
    matches = "both"
    if cursor.accept("not"):
        cursor.expect("matched")
        matches = "source"
        if cursor.accept("by", "source"):
            matches = "target"
        else:
            cursor.accept("by", "target")
    else:
        cursor.expect("matched")
    condition = cursor.part("a condition", "then") if cursor.accept("and") else None
    cursor.expect("then")
    common: dict[str, Any] = {"matches": matches, "condition": condition}
    if cursor.accept("do", "nothing"):
        return MergeClause(**common, action="nothing")
    if cursor.has("insert") and matches == "source":
        return _merge_insert(cursor, common)
    if matches == "source":
        cursor.fail("INSERT or DO NOTHING")
    if cursor.accept("delete"):
        return MergeClause(**common, action="delete")
    if not cursor.accept("update"):
        cursor.fail("UPDATE, DELETE or DO NOTHING")
    if matches == "both" and (cursor.accept("set", "*") or cursor.is_done or cursor.has("when")):
        return MergeClause(**common, action="update", is_whole=True)
    cursor.expect("set")
    return MergeClause(**common, action="update", sets=_sets(cursor, "when", "returning"))


def _merge_insert(cursor: StatementCursor, common: dict[str, Any]) -> MergeClause:
    cursor.expect("insert")
    if cursor.accept("*") or cursor.is_done or cursor.has("when"):
        return MergeClause(**common, action="insert", is_whole=True)
    columns = cursor.list_of(lambda: cursor.qualified_name("the name of a column")[-1]) if cursor.has("(") else ()
    if cursor.accept("default", "values"):
        return MergeClause(**common, action="insert")
    cursor.expect("values")
    values = cursor.list_of(lambda: _value(cursor))
    return MergeClause(**common, action="insert", columns=columns, values=values)
