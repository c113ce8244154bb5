"""SQL that users wrote: from one dialect to another, and calls whose place a table takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import BadRequest

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
DIALECTS = {"datafusion": "postgres", "duckdb": "duckdb", "spark": "spark", "postgres": "postgres", "ansi": ""}


def translated_sql(text: str, dialect: str, to: str) -> str:
    """A query in the dialect of another engine; one in the right dialect stays as it is."""
    if dialect == to:
        return text
    if dialect not in DIALECTS:
        hint = did_you_mean(dialect, DIALECTS) or f"there are {', '.join(DIALECTS)}"
        raise BadRequest(f"there is no dialect `{dialect}`", hint=hint)
    try:
        return sqlglot.transpile(text, read=DIALECTS[dialect] or None, write=DIALECTS[to])[0]
    except SqlglotError as error:
        first = str(error).splitlines()[0]
        raise BadRequest(f"the statement is no {dialect} SQL: {first}") from error


def qualified_sql(text: str, resolve: Callable[[list[str]], list[str]]) -> str:
    """A DuckDB query whose tables have other names."""
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
    except SqlglotError as error:
        raise BadRequest(f"a view cannot be read: {str(error).splitlines()[0]}") from error
    local = {each.alias for each in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        parts = [part.name for part in table.parts]
        if isinstance(table.this, exp.Identifier) and not (len(parts) == 1 and parts[0] in local):
            names = [exp.to_identifier(part, quoted=True) for part in resolve(parts)]
            table.set("this", names[-1])
            table.set("db", names[-2] if len(names) > 1 else None)
            table.set("catalog", names[-3] if len(names) > 2 else None)
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(parts[-1], quoted=True)))
    return tree.sql("duckdb")


@dataclass(frozen=True)
class Parameter:
    """An argument that is a parameter of the statement."""

    name: str


@dataclass(frozen=True)
class Call:
    """A call of a table function: where it stands, and its arguments, each a value or a parameter."""

    start: int
    end: int
    arguments: tuple[Any, ...]


def replaced_calls(text: str, function: str, replace: Callable[[Call], str]) -> str:
    """A DuckDB statement with something else in place of each call of a table function."""
    found = list(_calls(text, function))
    for call in reversed(found):
        text = f"{text[: call.start]}{replace(call)}{text[call.end :]}"
    return text


def tables_named(text: str) -> list[tuple[list[str], bool]] | None:
    """The names of tables in a DuckDB statement, and whether each may be one that the statement itself gives to a query.

    None if this parser cannot read what DuckDB can.
    """
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
    except SqlglotError:
        return None
    if tree.find(exp.Command) is not None:
        return None
    local = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    named = [
        [part.name for part in each.parts] for each in tree.find_all(exp.Table) if isinstance(each.this, exp.Identifier)
    ]
    return [(parts, len(parts) == 1 and parts[0].lower() in local) for parts in named]


def renamed_schema(text: str, schema: str, name: str) -> str:
    """A DuckDB statement with another name for a schema, wherever a table follows it."""
    found = [
        token
        for token, after in pairwise(_tokens(text))
        if token.text.lower() == schema and token.token_type in _NAMES and after.token_type == TokenType.DOT
    ]
    for token in reversed(found):
        text = f"{text[: token.start]}{name}{text[token.end + 1 :]}"
    return text


def without_parameters(text: str) -> str:
    """A DuckDB statement with NULL for each parameter: the names in it are the same."""
    found = [(token, after) for token, after in pairwise(_tokens(text)) if token.token_type == TokenType.PARAMETER]
    for token, after in reversed(found):
        text = f"{text[: token.start]}NULL{text[after.end + 1 :]}"
    return text


def _tokens(text: str) -> Sequence[Token]:
    try:
        return sqlglot.tokenize(text, read="duckdb")
    except SqlglotError as error:
        raise BadRequest(f"the statement cannot be read: {str(error).splitlines()[0]}") from error


def _calls(text: str, function: str) -> Sequence[Call]:
    tokens = _tokens(text)
    found = []
    for place, token in enumerate(tokens[:-1]):
        opens = tokens[place + 1].token_type == TokenType.L_PAREN
        if opens and token.text.lower() == function and token.token_type == TokenType.VAR and _is_table(tokens, place):
            last = _closing(tokens, place + 1)
            inside = text[tokens[place + 1].end + 1 : tokens[last].start]
            found.append(Call(token.start, tokens[last].end + 1, _arguments(function, inside)))
    return found


def _is_table(tokens: Sequence[Token], place: int) -> bool:
    """Whether a name stands where a table does."""
    return place > 0 and tokens[place - 1].token_type in (TokenType.FROM, TokenType.JOIN, TokenType.COMMA)


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for place in range(opening, len(tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[place].token_type, 0)
        if depth == 0:
            return place
    raise BadRequest("a parenthesis is not closed", hint="close it")


def _arguments(function: str, text: str) -> tuple[Any, ...]:
    try:
        parsed = sqlglot.parse_one(f"SELECT {function}({text})", read="duckdb")
    except SqlglotError as error:
        raise BadRequest(f"the arguments of {function} cannot be read: {str(error).splitlines()[0]}") from error
    call = parsed.find(exp.Anonymous)
    assert call is not None
    return tuple(_value(function, each) for each in call.expressions)


def _value(function: str, argument: exp.Expression) -> Any:
    match argument:
        case exp.Parameter() | exp.Placeholder():
            return Parameter(argument.name)
        case exp.Literal() | exp.Neg() | exp.Boolean() | exp.Null():
            return argument.to_py()
        case exp.Array():
            return [_value(function, each) for each in argument.expressions]
    hint = "give a value, or a parameter such as $name"
    raise BadRequest(f"`{argument.sql('duckdb')}` cannot be an argument of {function}", hint=hint)
