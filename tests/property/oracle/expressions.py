"""Expressions: their static types, and their values in a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph_compiler import Property, PropType
from omnigraph_compiler.query import ast
from omnigraph_compiler.types import BOOL, DATE, DATETIME, F64, I64, STRING
from omnigraph_compiler.values import parse_date, parse_datetime
from tests.property.oracle import text
from tests.property.oracle.blocks import Scope
from tests.property.oracle.embedding import Embedder
from tests.property.oracle.graph import Entity, OracleGraph
from tests.property.oracle.matching import Row
from tests.property.oracle.undecided import Unspecified
from tests.property.oracle.values import Value, equal, f32, holds

_LITERALS = {"String": STRING, "I64": I64, "F64": F64, "Bool": BOOL, "Date": DATE, "DateTime": DATETIME}
_MOST_EDITS = 2


@dataclass
class Expressions:
    """Evaluates the expressions of one execution of one query."""

    graph: OracleGraph
    params: Mapping[str, Value]
    now: int
    embedder: Embedder | None
    aliases: dict[str, ast.Expr] = field(default_factory=dict)
    fused: Callable[[ast.Rrf, Entity], float] | None = None
    """The fused score of an entity; there is one only once the match is known."""

    # Types

    def type_of(self, expr: ast.Expr, scope: Scope) -> PropType:
        match expr:
            case ast.Access():
                return self.declared(expr, scope).type
            case ast.Variable():
                return self.params[expr.name].type if expr.name in self.params else STRING
            case ast.Alias():
                return self.type_of(self.aliases[expr.name], scope)
            case ast.Scalar():
                return _LITERALS[expr.type]
            case ast.ListLiteral():
                scalars = [self.type_of(item, scope).scalar for item in expr.items] or ["String"]
                return PropType("F64" if "F64" in scalars else scalars[0], is_list=True)
            case ast.Now():
                return DATETIME
            case ast.TextPredicate():
                return BOOL
            case ast.Nearest():
                return F64.as_nullable()
            case ast.Bm25() | ast.Rrf():
                return F64
            case ast.Aggregate():
                return self._aggregate_type(expr, scope).as_nullable()

    def _aggregate_type(self, expr: ast.Aggregate, scope: Scope) -> PropType:
        if expr.function == "count":
            return I64
        return F64 if expr.function in ("sum", "avg") else self.type_of(expr.argument, scope)

    def declared(self, expr: ast.Access, scope: Scope) -> Property:
        name = expr.variable.text
        catalog = self.graph.catalog
        owner = catalog.nodes[scope.nodes[name]] if name in scope.nodes else catalog.edges[scope.edges[name]]
        return owner.properties[expr.property.text]

    # Values

    def value(self, expr: ast.Expr, row: Row) -> Value:
        match expr:
            case ast.Access():
                entity = row[expr.variable.text]
                prop = entity.type.properties[expr.property.text]
                return Value(entity.values[prop.name], prop.type, "stored")
            case ast.Variable():
                return self.params[expr.name] if expr.name in self.params else Value(row[expr.name].id, STRING)
            case ast.Alias():
                return self.value(self.aliases[expr.name], row)
            case ast.Scalar() | ast.ListLiteral():
                return _literal(expr)
            case ast.Now():
                return Value(self.now, DATETIME, "given")
            case ast.TextPredicate():
                return Value(self._predicate(expr, row), BOOL)
            case ast.Nearest():
                return Value(self._nearest(expr, row), F64.as_nullable())
            case ast.Bm25():
                return Value(self._bm25(expr, row), F64)
            case ast.Rrf():
                return Value(self._rrf(expr, row), F64)
            case ast.Aggregate():
                raise AssertionError("an aggregate has no value in a row")

    def passes_filter(self, clause: ast.Filter | ast.TextClause, row: Row) -> bool:
        if isinstance(clause, ast.TextClause):
            return self._predicate(clause.predicate, row)
        return holds(self.value(clause.left, row), clause.operator, self.value(clause.right, row))

    def passes_match(self, entity: Entity, match: ast.PropertyMatch) -> bool:
        """Equal to the value; for a list property, one of its elements is."""
        prop = entity.type.properties[match.property.text]
        own, wanted = Value(entity.values[prop.name], prop.type, "stored"), self.value(match.value, {})
        return holds(own, "contains", wanted) if prop.type.is_list else equal(own, wanted)

    # Search

    def _text(self, expr: ast.Expr, row: Row) -> str | None:
        found: str | None = self.value(expr, row).data
        return found

    def _predicate(self, expr: ast.TextPredicate, row: Row) -> bool:
        own, query = self._text(expr.field, row), self._text(expr.query, row)
        if expr.function != "fuzzy":
            return text.search(own, query)
        most = _MOST_EDITS if expr.max_edits is None else self.value(expr.max_edits, row).data
        if most is None or most < 0:
            raise Unspecified("how many edits a row allows")
        return text.fuzzy(own, query, most)

    def _bm25(self, expr: ast.Bm25, row: Row) -> float:
        assert isinstance(expr.field, ast.Access)
        entity, name = row[expr.field.variable.text], expr.field.property.text
        texts = [each.values[name] for each in self.graph.nodes[entity.type.name]]
        return text.bm25(entity.values[name], self._text(expr.query, row), texts)

    def _nearest(self, expr: ast.Nearest, row: Row) -> float | None:
        entity = row[expr.field.variable.text]
        prop = entity.type.properties[expr.field.property.text]
        return distance(prop.metric or "l2", entity.values[prop.name], self._vector(expr.query, row, prop))

    def _vector(self, expr: ast.Expr, row: Row, prop: Property) -> list[float] | None:
        found = self.value(expr, row)
        if found.type.is_string:
            if found.data is None:
                raise Unspecified("the vector of a text that is null")
            assert self.embedder is not None
            assert prop.type.dimension is not None
            return self.embedder.embed(found.data, prop.type.dimension)
        return None if found.data is None else [f32(float(each)) for each in found.data]

    def _rrf(self, expr: ast.Rrf, row: Row) -> float:
        assert self.fused is not None
        assert isinstance(expr.first, ast.Nearest | ast.Bm25)
        return self.fused(expr, row[ranked_variable(expr)])


def ranked_variable(expr: ast.Expr) -> str:
    """The variable a ranking function ranks."""
    match expr:
        case ast.Rrf():
            return ranked_variable(expr.first)
        case ast.Nearest():
            return expr.field.variable.text
        case _:
            assert isinstance(expr, ast.Bm25)
            assert isinstance(expr.field, ast.Access)
            return expr.field.variable.text


def distance(metric: str, a: list[float] | None, b: list[float] | None) -> float | None:
    """How far a stored vector is from another one."""
    if a is None or b is None:
        return None
    if metric == "l2":
        return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    if metric == "dot":
        return 1 - dot
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return 1 - dot / lengths if lengths else None


def _literal(expr: ast.Literal) -> Value:
    if isinstance(expr, ast.ListLiteral):
        items = [_literal(item) for item in expr.items]
        scalars = [item.type.scalar for item in items] or ["String"]
        scalar = "F64" if "F64" in scalars else scalars[0]
        numbers: Any = [float(item.data) if scalar == "F64" else item.data for item in items]
        return Value(numbers, PropType(scalar, is_list=True), "given")
    data: Any = expr.value
    if expr.type == "Date":
        data = parse_date(data)
    elif expr.type == "DateTime":
        data = parse_datetime(data)
    return Value(data, _LITERALS[expr.type], "given")
