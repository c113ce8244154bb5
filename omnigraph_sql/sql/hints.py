"""Hints for statements that cannot be parsed or resolved."""

from __future__ import annotations

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import NotFound
from omnigraph_sql.sql.resolver import NameResolver
from omnigraph_sql.sqltext.duckdb_tokens import tokens_of

_BEGINNINGS = ("select", "with", "explain", "from", "values", "table", "show", "describe", "pivot", "unpivot")
_IN_NAMES = frozenset("-@/#!:.\\~")
_AFTER_TABLE = frozenset(
    (
        *("on", "using", "join", "inner", "left", "right", "full", "cross", "natural", "where", "group", "order", "having"),
        *("limit", "offset", "union", "except", "intersect", "window", "qualify", "lateral", "anti", "semi", "asof"),
    )
)


def syntax_hint(statement: str, token: str) -> str | None:
    """Return a hint for a statement with a syntax error at a token; None if there is no advice."""
    tokens = tokens_of(statement)
    if tokens and token == tokens[0].text:
        word = did_you_mean(token.lower(), _BEGINNINGS)
        return word or "statements begin with SELECT, WITH, EXPLAIN or VALUES"
    if token and set(token) <= _IN_NAMES:
        return 'names with special characters need double quotes: "feature/x"."Person"'
    return "it ends too early" if token in ("", "EOF") else None


def owners(statement: str, column: str, resolver: NameResolver) -> list[str]:
    """Return a column's qualified names in a statement, one for each of its tables that has the column."""
    tokens = tokens_of(statement)
    names: list[str] = []
    for place, token in enumerate(tokens[:-1]):
        before = tokens[place - 1].text.lower() if place else ""
        if token.name is None or before not in ("from", "join", ","):
            continue
        try:
            columns = resolver.columns(resolver.find(resolver.default_place, token.name)).names
        except (NotFound, AssertionError):
            continue
        after = [following for following in tokens[place + 1 : place + 3] if following.text.lower() != "as"]
        is_alias = bool(after) and after[0].name is not None and after[0].text.lower() not in _AFTER_TABLE
        if column in columns:
            names.append(f"{after[0].text if is_alias else token.text}.{column}")
    return list(dict.fromkeys(names))
