"""Expressions of a query as SQL: properties are functions of positions, values are parameters."""

from __future__ import annotations

from sqlglot import exp

from omnigraph_compiler import PropType, ir
from omnigraph_compiler.types import FLOATS, INTEGERS, NUMERIC
from omnigraph_sql.comparison import COMPARATORS
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.plan import Draft, Frame, column, slot
from omnigraph_sql.planner.values import Compared, Decided, Listed, Member, Plain
from omnigraph_sql.sqltext.comparison_nodes import COMPARISON_NODES


def compare(draft: Draft, frame: Frame, compare: ir.Compare) -> exp.Expression:
    """A comparison that keeps a row iff it is true."""
    left, op, right = compare.left, compare.op, compare.right
    left_is_value, right_is_value = (isinstance(side, ir.ParamRef | ir.Constant) for side in (left, right))
    if left_is_value and right_is_value:
        return draft.value(Decided(left, op, right))  # type: ignore[arg-type]
    if op == "contains":
        return _contains(draft, frame, left, right)
    if op in ("contains_text", "starts_with"):
        name = "contains" if op == "contains_text" else "starts_with"
        return exp.Anonymous(this=name, expressions=[operand(draft, frame, left), operand(draft, frame, right)])
    if isinstance(left, ir.IdRef) and isinstance(right, ir.IdRef):
        return binary(op, slot(left.variable), slot(right.variable))
    if left_is_value:
        return _against(draft, frame, right, COMPARATORS[op].mirrored, left)
    if right_is_value:
        return _against(draft, frame, left, op, right)
    kinds = (_scalar(left), _scalar(right))
    if {kind in INTEGERS for kind in kinds} == {True, False} and all(kind in NUMERIC for kind in kinds):
        exact = fn.Exact(op, _type(left), _type(right))
        return draft.call(exact, operand(draft, frame, left), operand(draft, frame, right))
    return binary(op, operand(draft, frame, left), operand(draft, frame, right))


def _against(draft: Draft, frame: Frame, left: ir.Expr, op: str, value: ir.Expr) -> exp.Expression:
    assert isinstance(value, ir.ParamRef | ir.Constant)
    if isinstance(left, ir.PropertyRef):
        bound = draft.value(Compared(value, op, left.type))
    else:
        bound = draft.value(Plain(value, value.type))
    return binary(op, operand(draft, frame, left), bound)


def _contains(draft: Draft, frame: Frame, left: ir.Expr, right: ir.Expr) -> exp.Expression:
    if isinstance(left, ir.ParamRef | ir.Constant):
        values = draft.value(Listed(left, _type(right)))
        return exp.Anonymous(this="array_has", expressions=[values, operand(draft, frame, right)])
    if isinstance(right, ir.ParamRef | ir.Constant):
        needle = draft.value(Member(right, _type(left)))
    else:
        needle = operand(draft, frame, right)
    return exp.Anonymous(this="array_has", expressions=[operand(draft, frame, left), needle])


def operand(draft: Draft, frame: Frame, expr: ir.Expr) -> exp.Expression:
    """An expression to compare, sort or group by."""
    if isinstance(expr, ir.PropertyRef):
        comparable = expr.type.scalar in FLOATS and not expr.type.is_vector
        get = fn.Get(frame.variables[expr.variable], expr.property, expr.type, comparable)
        return draft.call(get, slot(expr.variable))
    return expression(draft, frame, expr)


def expression(draft: Draft, frame: Frame, expr: ir.Expr) -> exp.Expression:
    """An expression as a result shows it."""
    match expr:
        case ir.PropertyRef():
            get = fn.Get(frame.variables[expr.variable], expr.property, expr.type)
            return draft.call(get, slot(expr.variable))
        case ir.IdRef():
            return draft.call(fn.Get(frame.variables[expr.variable], "id", None), slot(expr.variable))
        case ir.ParamRef() | ir.Constant():
            return draft.value(Plain(expr, expr.type))
        case ir.TextMatch():
            return _text(draft, frame, expr)
        case ir.Nearest():
            return _distance(draft, frame, expr)
        case ir.Bm25():
            return _score(draft, frame, expr)
        case ir.ColumnRef():
            return column(expr.name)
        case ir.Rrf():
            return column(draft.fused[expr])
        case ir.AggregateCall():
            raise AssertionError("aggregates belong to groups")


def _query(draft: Draft, frame: Frame, query: ir.Expr) -> tuple[str | None, list[exp.Expression]]:
    """Bind the query of a search: one value for all rows, or an argument with a value per row."""
    if isinstance(query, ir.ParamRef | ir.Constant):
        return draft.input(query), []
    return None, [expression(draft, frame, query)]


def _text(draft: Draft, frame: Frame, match: ir.TextMatch) -> exp.Expression:
    field_ = match.field
    query, more = _query(draft, frame, match.query)
    edits = None
    if match.max_edits is not None:
        if not isinstance(match.max_edits, ir.ParamRef | ir.Constant):
            raise BadRequest("the distance of `fuzzy` is a number or a parameter", hint="it cannot differ from row to row")
        edits = draft.input(match.max_edits)
    text = fn.Text(match.function, frame.variables[field_.variable], field_.property, query, edits)
    return draft.call(text, slot(field_.variable), *more)


def _distance(draft: Draft, frame: Frame, nearest: ir.Nearest) -> exp.Expression:
    field_ = nearest.field
    query, more = _query(draft, frame, nearest.query)
    distance = fn.Distance(frame.variables[field_.variable], field_.property, nearest.metric, query)
    return draft.call(distance, slot(field_.variable), *more)


def _score(draft: Draft, frame: Frame, bm25: ir.Bm25) -> exp.Expression:
    field_ = bm25.field
    query, more = _query(draft, frame, bm25.query)
    score = fn.Bm25Score(frame.variables[field_.variable], field_.property, query)
    return draft.call(score, slot(field_.variable), *more)


def sort_key(draft: Draft, frame: Frame, expr: ir.Expr) -> exp.Expression:
    if isinstance(expr, ir.IdRef):
        return draft.call(fn.IdRank(frame.variables[expr.variable]), slot(expr.variable))
    return operand(draft, frame, expr)


def binary(op: str, left: exp.Expression, right: exp.Expression) -> exp.Expression:
    comparison: exp.Expression = COMPARISON_NODES[op](this=left, expression=right)
    return comparison


def _type(expr: ir.Expr) -> PropType:
    match expr:
        case ir.PropertyRef() | ir.ParamRef() | ir.Constant():
            return expr.type
        case ir.Nearest() | ir.Bm25() | ir.Rrf():
            return PropType("F64", nullable=True)
        case ir.TextMatch():
            return PropType("Bool")
    return PropType("String")


def _scalar(expr: ir.Expr) -> str:
    return expr.type.scalar if isinstance(expr, ir.PropertyRef) else ""
