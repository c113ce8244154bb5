"""A read query from text to answer."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping
from typing import Any

from omnigraph_compiler import Column, CompileError, Query, bind_params, compile_query
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.compile import find_query
from omnigraph_compiler.query.parse import parse_queries
from omnigraph_sql.errors import BadRequest, Compile, Configuration
from tests.property.oracle.answers import Answer
from tests.property.oracle.blocks import Block, Scope, read_block
from tests.property.oracle.embedding import Embedder
from tests.property.oracle.expressions import Expressions
from tests.property.oracle.graph import OracleGraph
from tests.property.oracle.matching import Matcher
from tests.property.oracle.output import Output
from tests.property.oracle.undecided import Unspecified
from tests.property.oracle.values import Value

_EPOCH_DAY = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
BUDGET = 200_000


def evaluate(
    graph: OracleGraph,
    source: str,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    now: int | None = None,
    embedder: Embedder | None = None,
    budget: int = BUDGET,
) -> Answer:
    """Run a read query of a `.gq` text.

    `now` is the instant of `now()` in milliseconds since the epoch, `budget` bounds the work. A query that fails raises the
    exception a user would get; `Undecided` says that there is nothing to compare with.
    """
    query, bound = accepted(graph, source, name, params)
    read = find_query(parse_queries(source), name).body
    assert isinstance(read, ast.Read)
    values = {key: Value(plain(bound[key]), type_, "given") for key, type_ in query.params.items()}
    moment = int(time.time() * 1000) if now is None else now
    expressions = Expressions(graph, values, moment, embedder)
    block = read_block(graph.catalog, read.match.clauses, Scope())
    columns = _columns(expressions, read, block.scope)
    _check_inputs(expressions, block, read)
    matcher = Matcher(graph, expressions.passes_match, expressions.passes_filter, budget)
    output = Output(read, expressions, sorted(block.scope.names()))
    return Answer(columns, output.make(list(matcher.solve(block, {}))), output.is_ordered)


def accepted(
    graph: OracleGraph, source: str, name: str | None, params: Mapping[str, Any] | None
) -> tuple[Query, dict[str, Any]]:
    """The compiled query and its parameters, or the exception a user would get."""
    try:
        query = compile_query(graph.catalog, source, name)
        return query, bind_params(query, params)
    except CompileError as error:
        if error.error_class == "input":
            raise BadRequest(error.message, diagnostics=(error.diagnostic,), hint=error.hint) from None
        raise Compile(error.message, error_class=error.error_class, code=error.code, hint=error.hint) from None


def plain(value: Any) -> Any:
    """A bound parameter with dates as days and instants as milliseconds."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // datetime.timedelta(milliseconds=1)
    return (value - _EPOCH_DAY).days if isinstance(value, datetime.date) else value


# Columns ---------------------------------------------------------------------------------------------------------


def _columns(expressions: Expressions, read: ast.Read, scope: Scope) -> tuple[Column, ...]:
    columns = []
    for item in read.returns.items:
        columns.append(Column(item.alias.text if item.alias else _name(item.expr), expressions.type_of(item.expr, scope)))
        if item.alias:
            expressions.aliases[item.alias.text] = item.expr
    return tuple(columns)


def _name(expr: ast.Expr) -> str:
    match expr:
        case ast.Access():
            return f"{expr.variable.text}.{expr.property.text}"
        case ast.Variable() | ast.Alias():
            return expr.name
        case ast.Scalar() | ast.ListLiteral():
            return "literal"
        case ast.Aggregate() | ast.TextPredicate():
            return expr.function
        case ast.Now():
            return "now"
        case ast.Nearest():
            return "nearest"
        case ast.Bm25():
            return "bm25"
        case ast.Rrf():
            return "rrf"


# Inputs that only an execution can refuse ------------------------------------------------------------------------


def _check_inputs(expressions: Expressions, block: Block, read: ast.Read) -> None:
    for expr, scope in _all_expressions(block, read):
        if isinstance(expr, ast.TextPredicate) and expr.max_edits is not None:
            _check_number(expressions, expr.max_edits, 0, "max_edits of fuzzy()")
        elif isinstance(expr, ast.Rrf) and expr.k is not None:
            if isinstance(expr.k, ast.Access):
                raise Unspecified("a fusion whose k depends on the row")
            _check_number(expressions, expr.k, 1, "k of rrf()")
        elif isinstance(expr, ast.Nearest) and expressions.type_of(expr.query, scope).is_string:
            _check_embedder(expressions, expr, scope)


def _check_number(expressions: Expressions, expr: ast.Expr, least: int, what: str) -> None:
    if not isinstance(expr, ast.Variable | ast.Scalar):
        return
    number = expressions.value(expr, {}).data
    if number is None:
        raise Unspecified(f"{what} is null")
    if number < least:
        raise BadRequest(f"{what} must be at least {least}, found {number}")


def _check_embedder(expressions: Expressions, expr: ast.Nearest, scope: Scope) -> None:
    embedder, prop = expressions.embedder, expressions.declared(expr.field, scope)
    if embedder is None:
        raise Configuration(f"no embedding provider is configured for the text query on `{prop.name}`", what="embeddings")
    if prop.embed is not None and prop.embed.model not in (None, embedder.model):
        text = f"`{prop.name}` was embedded with `{prop.embed.model}`, the provider's model is `{embedder.model}`"
        raise Configuration(text, what="embeddings")


def _all_expressions(block: Block, read: ast.Read) -> Iterator[tuple[ast.Expr, Scope]]:
    yield from _block_expressions(block)
    keys = read.order.keys if read.order else ()
    for top in (*(item.expr for item in read.returns.items), *(key.expr for key in keys)):
        yield from ((expr, block.scope) for expr in _within(top))


def _block_expressions(block: Block) -> Iterator[tuple[ast.Expr, Scope]]:
    for clause in block.filters:
        tops: tuple[ast.Expr, ...] = (clause.left, clause.right) if isinstance(clause, ast.Filter) else (clause.predicate,)
        yield from ((expr, block.scope) for top in tops for expr in _within(top))
    for _, inner in block.negations:
        yield from _block_expressions(inner)


def _within(expr: ast.Expr) -> Iterator[ast.Expr]:
    """An expression and what it is made of."""
    yield expr
    match expr:
        case ast.Aggregate():
            yield from _within(expr.argument)
        case ast.Rrf():
            yield from (*_within(expr.first), *_within(expr.second))
