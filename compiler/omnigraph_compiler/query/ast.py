"""Syntax trees of queries. `span` is a half-open range of character offsets into the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

At: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Name:
    """A word of the source with its span."""

    text: str
    span: At


# Expressions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    span: At


@dataclass(frozen=True, slots=True)
class Access:
    variable: Name
    property: Name
    span: At


@dataclass(frozen=True, slots=True)
class Alias:
    name: str
    span: At


@dataclass(frozen=True, slots=True)
class Scalar:
    """A literal; `type` is one of String, I64, F64, Bool, Date, DateTime (the latter two as written)."""

    type: str
    value: str | int | float | bool
    span: At


@dataclass(frozen=True, slots=True)
class ListLiteral:
    items: tuple[Literal, ...]
    span: At


@dataclass(frozen=True, slots=True)
class Now:
    span: At


@dataclass(frozen=True, slots=True)
class Nearest:
    field: Access
    query: Expr
    span: At


@dataclass(frozen=True, slots=True)
class Bm25:
    field: Expr
    query: Expr
    span: At


@dataclass(frozen=True, slots=True)
class Rrf:
    first: Expr
    second: Expr
    k: Expr | None
    span: At


@dataclass(frozen=True, slots=True)
class Aggregate:
    function: str
    argument: Expr
    span: At


@dataclass(frozen=True, slots=True)
class TextPredicate:
    """`search`, `match_text` or `fuzzy`."""

    function: str
    field: Expr
    query: Expr
    max_edits: Expr | None
    span: At


Literal: TypeAlias = Scalar | ListLiteral
Expr: TypeAlias = Variable | Access | Alias | Scalar | ListLiteral | Now | Nearest | Bm25 | Rrf | Aggregate | TextPredicate
Value: TypeAlias = Scalar | ListLiteral | Variable | Now

# Reads -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PropertyMatch:
    property: Name
    value: Value
    span: At


@dataclass(frozen=True, slots=True)
class Binding:
    variable: Name
    type: Name
    matches: tuple[PropertyMatch, ...]
    braces: bool
    span: At


@dataclass(frozen=True, slots=True)
class Hops:
    minimum: int
    maximum: int | None
    span: At


@dataclass(frozen=True, slots=True)
class Traversal:
    source: Name
    edge_variable: Name | None
    edge: Name
    undirected: bool
    hops: Hops | None
    target: Name
    span: At


@dataclass(frozen=True, slots=True)
class Filter:
    left: Expr
    operator: str
    right: Expr
    span: At


@dataclass(frozen=True, slots=True)
class TextClause:
    predicate: TextPredicate
    span: At


@dataclass(frozen=True, slots=True)
class Negation:
    clauses: tuple[Clause, ...]
    span: At


Clause: TypeAlias = Negation | Binding | Traversal | Filter | TextClause


@dataclass(frozen=True, slots=True)
class Item:
    expr: Expr
    alias: Name | None
    span: At


@dataclass(frozen=True, slots=True)
class SortKey:
    expr: Expr
    direction: str | None
    span: At


@dataclass(frozen=True, slots=True)
class MatchBlock:
    clauses: tuple[Clause, ...]
    span: At


@dataclass(frozen=True, slots=True)
class ReturnBlock:
    items: tuple[Item, ...]
    span: At


@dataclass(frozen=True, slots=True)
class OrderBlock:
    keys: tuple[SortKey, ...]
    span: At


@dataclass(frozen=True, slots=True)
class Limit:
    count: int | Variable
    span: At


@dataclass(frozen=True, slots=True)
class Read:
    match: MatchBlock
    returns: ReturnBlock
    order: OrderBlock | None
    limit: Limit | None
    span: At


# Writes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assignment:
    property: Name
    value: Value
    span: At


@dataclass(frozen=True, slots=True)
class Predicate:
    property: Name
    operator: str
    value: Value
    span: At


@dataclass(frozen=True, slots=True)
class Insert:
    type: Name
    assignments: tuple[Assignment, ...]
    span: At


@dataclass(frozen=True, slots=True)
class Update:
    type: Name
    assignments: tuple[Assignment, ...]
    set_span: At
    predicate: Predicate
    span: At


@dataclass(frozen=True, slots=True)
class Delete:
    type: Name
    predicate: Predicate
    span: At


Statement: TypeAlias = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Write:
    statements: tuple[Statement, ...]
    span: At


# Queries ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParamType:
    """A parameter type as written; the type checker checks whether `name` is a type."""

    name: str
    dimension: int | None
    is_list: bool
    nullable: bool
    name_span: At
    span: At


@dataclass(frozen=True, slots=True)
class Param:
    variable: Name
    type: ParamType
    span: At


@dataclass(frozen=True, slots=True)
class Meta:
    name: str
    value: str
    value_span: At
    span: At


@dataclass(frozen=True, slots=True)
class Query:
    name: Name
    params: tuple[Param, ...]
    params_end: int
    metas: tuple[Meta, ...]
    brace: At
    body: Read | Write
    span: At


@dataclass(frozen=True, slots=True)
class File:
    queries: tuple[Query, ...]
