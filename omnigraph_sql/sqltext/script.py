"""Scripts: texts of SQL statements that end with semicolons.

A statement that only reads stays as it is. One that changes something is parsed by grammars of our own, the same for every
engine; the expressions and queries in it stay text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.sqltext.branch_grammar import branch_statement
from omnigraph_sql.sqltext.definition_grammar import (
    alter_statement,
    comment_statement,
    create_statement,
    drop_statement,
)
from omnigraph_sql.sqltext.duckdb_tokens import SqlToken, tokens_of
from omnigraph_sql.sqltext.row_grammar import (
    delete_statement,
    insert_statement,
    merge_statement,
    truncate_statement,
    update_statement,
)
from omnigraph_sql.sqltext.statement_cursor import StatementCursor, position
from omnigraph_sql.sqltext.text_limits import check_sql
from omnigraph_sql.sqltext.user_sql import parameter_names
from omnigraph_sql.sqltext.write_statements import ReadStatement, ScriptStatement, TransactionMark

_READS: Final = ("select", "from", "values", "table", "explain", "show", "describe", "desc", "pivot", "unpivot", "summarize")
_NO_QUERIES: Final = ("explain", "show", "describe", "desc", "summarize")
_WRITES: Final = ("insert", "update", "delete", "merge", "truncate", "create", "drop", "alter", "comment", "use")
_ROWS: Final = ("insert", "update", "delete", "merge")
_UNSUPPORTED: Final = {
    "copy": "load files with LOAD of the API or `ogsql load`, or register them and INSERT from them",
    "grant": "rights are not kept in the graph",
    "revoke": "rights are not kept in the graph",
    "set": "options are arguments of the call",
    "reset": "options are arguments of the call",
    "pragma": "options are arguments of the call",
    "vacuum": "`ogsql cleanup` removes what nobody needs any more",
    "analyze": "statistics are always up to date",
    "attach": "register the source with Graph.register",
    "detach": "take the source out with Graph.unregister",
    "install": "the engine loads no extensions",
    "load": "the engine loads no extensions",
    "call": "write SELECT * FROM of a table function",
    "execute": "pass parameters with the call",
    "prepare": "pass parameters with the call",
    "deallocate": "pass parameters with the call",
    "savepoint": "a script or transaction is published as a whole, or not at all",
    "release": "a script or transaction is published as a whole, or not at all",
    "lock": "a transaction that meets changes of others is refused when it commits",
    "replace": "write CREATE OR REPLACE TABLE, or INSERT … ON CONFLICT DO UPDATE",
    "upsert": "write INSERT … ON CONFLICT DO UPDATE, or MERGE INTO",
}


def located(error: OmnigraphError, statement: ScriptStatement) -> OmnigraphError:
    """An error that names the statement that it is about."""
    error.message = f"{statement.place}: {error.message}"
    error.args = (error.message,)
    return error


def script_statements(script: str) -> list[ScriptStatement]:
    r"""The statements of a script. Raises if one of them is not valid or not supported.

    >>> [(type(one).__name__, one.place) for one in script_statements("select ';';\n drop table t")]
    [('ReadStatement', 'statement 1 (line 1, column 1)'), ('DropStatement', 'statement 2 (line 2, column 2)')]
    """
    check_sql(script)
    statements = [_statement(script, tokens, number) for number, tokens in enumerate(_pieces(tokens_of(script)), 1)]
    if not statements:
        raise BadRequest("there is no statement", hint="write one")
    return statements


def view_query(text: str, name: str) -> str:
    """The query of a view, without a semicolon at its end. Raises for a text that is no query.

    >>> view_query("select 1 as a;", "v")
    'select 1 as a'
    """
    try:
        statements = script_statements(text)
    except OmnigraphError as error:
        raise BadRequest(f"the view `{name}` is no query: {error.message}", hint=error.hint) from None
    query = statements[0]
    word = query.text.split(maxsplit=1)[0].lower()
    if len(statements) > 1 or not isinstance(query, ReadStatement) or word in _NO_QUERIES:
        raise BadRequest(f"the view `{name}` is no query", hint="define it by one SELECT, VALUES or WITH")
    if parameter_names(text):
        raise BadRequest(f"the view `{name}` has parameters", hint="write the values in its query")
    return query.text if ";" in text else text


def _pieces(tokens: Sequence[SqlToken]) -> Iterator[list[SqlToken]]:
    """The tokens of each statement."""
    piece: list[SqlToken] = []
    for token in tokens:
        if token.text != ";":
            piece.append(token)
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _statement(script: str, tokens: list[SqlToken], number: int) -> ScriptStatement:
    line, column = position(script, tokens[0].start)
    text = script[tokens[0].start : tokens[-1].end]
    place = {"text": text, "number": number, "line": line, "column": column}
    try:
        return _parsed(StatementCursor(script, tokens), place)
    except OmnigraphError as error:
        raise located(error, ScriptStatement(**place)) from None  # type: ignore[arg-type]


def _parsed(cursor: StatementCursor, place: dict[str, Any]) -> ScriptStatement:
    first = cursor.word()
    if first in ("begin", "start", "commit", "end", "rollback", "abort"):
        return _mark(cursor, place)
    branch = branch_statement(cursor, place)
    if branch is not None:
        return branch
    if first == "(" or first in _READS:
        return ReadStatement(**place)
    if first == "with":
        return _after_with(cursor, place)
    if first in _ROWS:
        return _row_statement(cursor, place, "")
    return _definition(cursor, place)


def _definition(cursor: StatementCursor, place: dict[str, Any]) -> ScriptStatement:
    word = cursor.word()
    cursor.at += 1
    match word:
        case "create":
            return create_statement(cursor, place)
        case "drop":
            return drop_statement(cursor, place)
        case "alter":
            return alter_statement(cursor, place)
        case "comment":
            return comment_statement(cursor, place)
        case "truncate":
            return truncate_statement(cursor, place)
    if word in _UNSUPPORTED:
        raise BadRequest(f"{word.upper()} is not supported", hint=_UNSUPPORTED[word])
    hint = did_you_mean(word, (*_READS, *_WRITES)) or f"statements begin with {', '.join(_WRITES).upper()}, SELECT or WITH"
    raise BadRequest(f"`{clip(place['text'].split()[0])}` begins no statement", hint=hint)


def _row_statement(cursor: StatementCursor, place: dict[str, Any], prefix: str) -> ScriptStatement:
    word = cursor.accept_any(*_ROWS)
    if word == "insert":
        return insert_statement(cursor, place, prefix)
    if word == "update":
        return update_statement(cursor, place, prefix)
    if word == "delete":
        return delete_statement(cursor, place, prefix)
    return merge_statement(cursor, place, prefix)


def _after_with(cursor: StatementCursor, place: dict[str, Any]) -> ScriptStatement:
    """A query, or a statement that changes rows with the queries of `with` before it."""
    start = cursor.at
    cursor.at += 1
    cursor.skip_to_any(*_ROWS, "select", "values", "from", "table")
    if cursor.word() not in _ROWS:
        return ReadStatement(**place)
    prefix = cursor.between(start, cursor.at)
    return _row_statement(cursor, place, prefix)


def _mark(cursor: StatementCursor, place: dict[str, Any]) -> TransactionMark:
    word = cursor.accept_any("begin", "start", "commit", "end", "rollback", "abort")
    cursor.accept_any("transaction", "work")
    if not cursor.is_done:
        cursor.fail("the end of the statement", hint="a transaction sees the branch as it is when it begins")
    if word in ("begin", "start"):
        return TransactionMark(**place, word="begin")
    return TransactionMark(**place, word="commit" if word in ("commit", "end") else "rollback")
