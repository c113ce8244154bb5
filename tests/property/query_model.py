"""Queries as plain values: what was generated, what must come out of compiling it, and how it is written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from omnigraph_compiler import PropType
from tests.property.layout import Layout, string_token
from tests.property.model import separated, type_tokens

Tokens = tuple[str, ...]
Table = tuple[Literal["node", "edge"], str]
NEED_COMMA = ("as", "asc", "desc")
"""Words that continue the item before them unless a comma stands in between."""


@dataclass(frozen=True)
class Clause:
    kind: Literal["binding", "traversal", "filter", "text", "negation"]
    tokens: Tokens


@dataclass(frozen=True)
class Item:
    """A `return` item with the output column it must make."""

    tokens: Tokens
    type: PropType
    default_name: str
    alias: str | None = None
    variable: str | None = None
    """The variable whose name is part of the default name."""
    sortable: bool = True
    rank: Literal["nearest", "bm25", "rrf"] | None = None
    grouping: bool = False

    @property
    def name(self) -> str:
        return self.default_name if self.alias is None else self.alias

    def all_tokens(self) -> Tokens:
        return self.tokens if self.alias is None else (*self.tokens, "as", self.alias)


@dataclass(frozen=True)
class Statement:
    """An insert, update or delete: what stands before, inside and after its assignments."""

    head: Tokens
    assignments: tuple[Tokens, ...] = ()
    tail: Tokens = ()


@dataclass(frozen=True)
class QueryCase:
    """A valid query, with the types, tables and columns it must have."""

    name: str
    params: tuple[tuple[str, PropType], ...] = ()
    metas: tuple[tuple[str, str], ...] = ()
    clauses: tuple[Clause, ...] = ()
    items: tuple[Item, ...] = ()
    order: tuple[Tokens, ...] = ()
    limit: int | None = None
    statements: tuple[Statement, ...] = ()
    reads: frozenset[Table] = frozenset()
    writes: frozenset[Table] = frozenset()
    variables: tuple[tuple[str, str], ...] = ()
    """Node variables of the match and their types."""

    def columns(self) -> list[tuple[str, PropType]]:
        return [(item.name, item.type) for item in self.items]

    def renamed(self, names: Mapping[str, str]) -> QueryCase:
        """The query with other names for its variables and parameters."""

        def tokens(old: Tokens) -> Tokens:
            return tuple(f"${names.get(token[1:], token[1:])}" if token.startswith("$") else token for token in old)

        def item(old: Item) -> Item:
            if old.variable is None:
                return replace(old, tokens=tokens(old.tokens))
            new = names.get(old.variable, old.variable)
            default = new + old.default_name.removeprefix(old.variable)
            return replace(old, tokens=tokens(old.tokens), default_name=default, variable=new)

        return replace(
            self,
            params=tuple((names.get(name, name), type_) for name, type_ in self.params),
            clauses=tuple(replace(clause, tokens=tokens(clause.tokens)) for clause in self.clauses),
            items=tuple(item(each) for each in self.items),
            order=tuple(tokens(key) for key in self.order),
            statements=tuple(
                Statement(each.head, tuple(tokens(part) for part in each.assignments), tokens(each.tail))
                for each in self.statements
            ),
        )

    def names(self) -> set[str]:
        """Every variable and parameter except the anonymous one."""
        parts = [clause.tokens for clause in self.clauses] + [item.tokens for item in self.items]
        used = {token[1:] for part in parts for token in part if token.startswith("$")}
        return (used | {name for name, _ in self.params}) - {"_"}


def reordered(query: QueryCase, random: Random) -> QueryCase:
    """The same query with its clauses in another legal order: every variable is bound first, then used."""
    bound = tuple(Clause("binding", (f"${name}", ":", type_name)) for name, type_name in query.variables)
    groups = [
        [*bound, *(clause for clause in query.clauses if clause.kind == "binding")],
        [clause for clause in query.clauses if clause.kind == "traversal"],
        [clause for clause in query.clauses if clause.kind not in ("binding", "traversal")],
    ]
    for group in groups:
        random.shuffle(group)
    return replace(query, clauses=tuple(clause for group in groups for clause in group))


# Writing ---------------------------------------------------------------------------------------------------------


def query_tokens(query: QueryCase, seed: int = 0) -> list[str]:
    """The tokens of a query; the seed chooses among equal spellings."""
    random = Random(seed)

    def chance() -> bool:
        return seed != 0 and random.random() < 0.5

    params = separated([f"${name}", ":", *type_tokens(type_)] for name, type_ in query.params)
    tokens = ["query", query.name, "(", *params, ")"]
    for name, text in query.metas:
        tokens += [f"@{name}", "(", string_token(text, random if seed else None), ")"]
    tokens.append("{")
    if query.statements:
        for statement in query.statements:
            tokens += _statement(statement, chance)
        return [*tokens, "}"]
    tokens += ["match", "{", *(token for clause in query.clauses for token in clause.tokens), "}"]
    tokens += ["return", "{", *_items(query.items, chance), "}"]
    if query.order:
        tokens += ["order", "{", *separated(query.order), "}"]
    if query.limit is not None:
        tokens += ["limit", str(query.limit)]
    return [*tokens, "}"]


def _items(items: tuple[Item, ...], chance: Callable[[], bool]) -> list[str]:
    tokens: list[str] = []
    for position, item in enumerate(items):
        if position and (item.tokens[0] in NEED_COMMA or not chance()):
            tokens.append(",")
        tokens += item.all_tokens()
    return [*tokens, ","] if chance() else tokens


def _statement(statement: Statement, chance: Callable[[], bool]) -> list[str]:
    if not statement.assignments:
        return [*statement.head, *statement.tail]
    tokens = [*statement.head, "{"]
    for position, assignment in enumerate(statement.assignments):
        if position and not chance():
            tokens.append(",")
        tokens += assignment
    if chance():
        tokens.append(",")
    return [*tokens, "}", *statement.tail]


def file_text(queries: tuple[QueryCase, ...], seed: int, layout: Layout) -> str:
    return layout.write([token for query in queries for token in query_tokens(query, seed)])


def write(query: QueryCase) -> str:
    """A query in plain layout."""
    return Layout().write(query_tokens(query))
