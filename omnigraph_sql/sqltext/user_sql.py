"""User SQL: transpiled between dialects, with table functions replaced by relations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.sqltext.duckdb_tokens import SqlToken, tokens_of
from omnigraph_sql.sqltext.text_limits import check_sql, too_deep

_OPTIONS = ("analyze", "format")
DIALECTS = {"datafusion": "postgres", "duckdb": "duckdb", "spark": "spark", "postgres": "postgres", "ansi": ""}


def check_dialect(dialect: str) -> str:
    """Return a dialect. Raises if it is unknown."""
    if dialect not in DIALECTS:
        hint = did_you_mean(dialect, DIALECTS) or f"there are {', '.join(DIALECTS)}"
        raise BadRequest(f"there is no dialect `{dialect}`", hint=hint)
    return dialect


def translated_sql(text: str, dialect: str, to: str) -> str:
    """Return a query in the dialect of another engine; one in that dialect is returned unchanged."""
    if dialect == to:
        return text
    check_sql(text)
    check_dialect(dialect)
    try:
        return sqlglot.transpile(text, read=DIALECTS[dialect] or None, write=DIALECTS[to])[0]
    except RecursionError:
        raise too_deep("the statement") from None
    except SqlglotError as error:
        first = str(error).splitlines()[0]
        raise BadRequest(f"the statement is no {dialect} SQL: {first}") from error


def qualified_sql(text: str, resolve: Callable[[list[str]], list[str]]) -> str:
    """Return a DuckDB query with its tables renamed."""
    check_sql(text, "a view")
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
    except RecursionError:
        raise too_deep("a view") from None
    except SqlglotError as error:
        raise BadRequest(f"a view cannot be read: {str(error).splitlines()[0]}") from error
    local = {cte.alias for cte in tree.find_all(exp.CTE)}
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
class SqlParameter:
    """An argument given as a parameter of the statement."""

    name: str


@dataclass(frozen=True)
class SqlCall:
    """A call of a table function: its position, and its arguments, each a value or a parameter."""

    start: int
    end: int
    arguments: tuple[Any, ...]


def replaced_calls(text: str, function: str, replace: Callable[[SqlCall], str]) -> str:
    """Return a DuckDB statement with each call of a table function replaced."""
    if function not in text.lower():
        return text
    calls = list(_calls(text, function))
    for call in reversed(calls):
        text = f"{text[: call.start]}{replace(call)}{text[call.end :]}"
    return text


def renamed_schema(text: str, schema: str, name: str) -> str:
    """Return a DuckDB statement with a schema renamed wherever it qualifies a table."""
    if schema not in text.lower():
        return text
    tokens = [
        token
        for token, after in pairwise(tokens_of(text))
        if token.name is not None and token.name.lower() == schema and after.text == "."
    ]
    for token in reversed(tokens):
        text = f"{text[: token.start]}{name}{text[token.end :]}"
    return text


def unexplained(text: str) -> tuple[str, str]:
    """Split a DuckDB statement into its EXPLAIN prefix, empty if it has none, and the query.

    >>> unexplained("explain /* how */ analyze (format json) select 1")
    ('explain analyze ( format json )', 'select 1')
    >>> unexplained("explain (select 1)")[1], unexplained("select 'explain'")
    ('(select 1)', ('', "select 'explain'"))
    """
    tokens = tokens_of(text)
    if not _is_word(tokens, 0, "explain"):
        return "", text
    place = 2 if _is_word(tokens, 1, "analyze") else 1
    if place < len(tokens) and tokens[place].text == "(" and _is_word(tokens, place + 1, *_OPTIONS):
        place = _closing(tokens, place) + 1
    start = tokens[place].start if place < len(tokens) else len(text)
    return " ".join(token.text for token in tokens[:place]), text[start:]


def parameter_names(text: str) -> frozenset[str]:
    r"""Return the parameters that a statement mentions.

    >>> sorted(parameter_names("select $a, '$b', \"$c\" from gq('q', $d) -- $e"))
    ['a', 'd']
    """
    return frozenset(token.text[1:] for token in tokens_of(text) if token.kind == "parameter" and token.text != "?")


def is_sampled(text: str) -> bool:
    r"""True if a statement samples a table.

    >>> is_sampled("select * from t tablesample (10)"), is_sampled("select 'tablesample', \"tablesample\" from t")
    (True, False)
    """
    return "tablesample" in text.lower() and any(_is_word([token], 0, "tablesample") for token in tokens_of(text))


def state_written(text: str) -> str | None:
    """Return a table reference with an unquoted state, such as `person@draft`, which SQL cannot parse; None without one.

    >>> state_written("select a from main.person@feature/x p"), state_written("select a @ b from t")
    ('person@feature/x', None)
    """
    tokens = tokens_of(text)
    for place, (token, sign) in enumerate(pairwise(tokens)):
        first = place
        while first > 1 and tokens[first - 1].text == ".":
            first -= 2
        if sign.text == "@" and token.end == sign.start and token.name is not None and _is_table(tokens, first):
            after = re.match(r"[\w/.-]+", text[sign.end :])
            return None if after is None else f"{token.name}@{after[0]}"
    return None


def _is_word(tokens: Sequence[SqlToken], place: int, *words: str) -> bool:
    return place < len(tokens) and tokens[place].kind == "word" and tokens[place].text.lower() in words


def _calls(text: str, function: str) -> Sequence[SqlCall]:
    tokens = tokens_of(text)
    calls = []
    for place, token in enumerate(tokens[:-1]):
        if tokens[place + 1].text == "(" and _is_word(tokens, place, function) and _is_table(tokens, place):
            last = _closing(tokens, place + 1)
            arguments = _arguments(function, tokens[place + 2 : last])
            calls.append(SqlCall(token.start, tokens[last].end, arguments))
    return calls


def _is_table(tokens: Sequence[SqlToken], place: int) -> bool:
    """True if a name is in the position of a table."""
    return place > 0 and (_is_word(tokens, place - 1, "from", "join") or tokens[place - 1].text == ",")


def _closing(tokens: Sequence[SqlToken], opening: int) -> int:
    depth = 0
    for place in range(opening, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[place].text, 0)
        if depth == 0:
            return place
    raise BadRequest("a parenthesis is not closed", hint="close it")


def _arguments(function: str, tokens: Sequence[SqlToken]) -> tuple[Any, ...]:
    text = " ".join(token.text for token in tokens)  # joined by spaces: `$a,$` would start a dollar-quoted string
    try:
        parsed = sqlglot.parse_one(f"SELECT {function}({text})", read="duckdb")
    except RecursionError:
        raise too_deep(f"a call of {function}") from None
    except SqlglotError as error:
        raise BadRequest(f"the arguments of {function} cannot be read: {str(error).splitlines()[0]}") from error
    call = parsed.find(exp.Anonymous)
    assert call is not None
    return tuple(_value(function, expression) for expression in call.expressions)


def _value(function: str, argument: exp.Expression) -> Any:
    match argument:
        case exp.Parameter() | exp.Placeholder():
            return SqlParameter(argument.name)
        case exp.RawString():
            return argument.name
        case exp.Literal() | exp.Neg() | exp.Boolean() | exp.Null():
            return argument.to_py()
        case exp.Array():
            return [_value(function, expression) for expression in argument.expressions]
    hint = "give a value, or a parameter such as $name"
    raise BadRequest(f"`{argument.sql('duckdb')}` cannot be an argument of {function}", hint=hint)
