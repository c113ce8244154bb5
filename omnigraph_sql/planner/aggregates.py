"""Aggregates as SQL. Where branches were pruned from the pattern, a row counts as often as they can be matched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from sqlglot import exp

from omnigraph_compiler import ir
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.expressions import operand
from omnigraph_sql.planner.logical import Logical, Vertex
from omnigraph_sql.planner.plan import FLOAT64, Draft, Frame, slot

_COUNT = "BIGINT"
_KINDS: dict[str, Any] = {"sum": exp.Sum, "avg": exp.Avg, "min": exp.Min, "max": exp.Max}


def aggregate(draft: Draft, frame: Frame, call: ir.AggregateCall, query: Logical) -> exp.Expression:
    """One aggregate over the rows of a group."""
    if not query.weighted and not query.may_be_void:
        return _plain(draft, frame, call)
    return _Weighed(draft, frame, query).aggregate(call)


def of_one_row(draft: Draft, frame: Frame, call: ir.AggregateCall, query: Logical) -> exp.Expression:
    """The aggregate over a group of exactly one row."""
    return _Weighed(draft, frame, query, total=lambda value: value).aggregate(call)


def is_positive(draft: Draft, frame: Frame, query: Logical) -> exp.Expression:
    """True for a group with a match, where rows may have none."""
    return exp.GT(this=exp.Sum(this=_Weighed(draft, frame, query).weight()), expression=exp.Literal.number(0))


def _plain(draft: Draft, frame: Frame, call: ir.AggregateCall) -> exp.Expression:
    argument = call.argument
    if call.function == "count":
        counted = slot(argument.variable) if isinstance(argument, ir.IdRef) else operand(draft, frame, argument)
        return exp.Count(this=counted)
    value = operand(draft, frame, argument)
    if call.function in ("sum", "avg"):
        value = exp.cast(value, FLOAT64)
    total: exp.Expression = _KINDS[call.function](this=value)
    return total


def _sum(value: exp.Expression) -> exp.Expression:
    return exp.Sum(this=value)


class _Weighed:
    """Aggregates over rows that stand for several matches each."""

    def __init__(
        self,
        draft: Draft,
        frame: Frame,
        query: Logical,
        total: Callable[[exp.Expression], exp.Expression] = _sum,
    ) -> None:
        self._draft = draft
        self._frame = frame
        self._query = query
        self._total = total

    def aggregate(self, call: ir.AggregateCall) -> exp.Expression:
        if call.function in ("min", "max"):
            value = operand(self._draft, self._frame, call.argument)
            extreme: exp.Expression = _KINDS[call.function](this=value)
            return extreme if self._total is _sum else value
        if isinstance(call.argument, ir.IdRef):
            return _or_zero(self._total(self.weight()))
        if call.function == "count":
            return _or_zero(self._total(self._count_of(call.argument)))
        if call.function == "sum":
            return self._total(self._sum_of(call.argument))
        count = exp.cast(self._total(self._count_of(call.argument)), FLOAT64)
        return exp.Div(this=self._total(self._sum_of(call.argument)), expression=exp.Nullif(this=count, expression=_zero()))

    def weight(self, without: str | None = None) -> exp.Expression:
        """The number of matches of a row; `without` leaves out the branches of a variable."""
        factors = [
            self._draft.call(fn.Weight(vertex.type, vertex.branches), slot(vertex.variable))
            for vertex in self._query.weighted
            if vertex.variable != without
        ]
        factors += [
            self._draft.call(fn.CommonWeight(fork.edges, fork.directions, fork.tree), slot(fork.first), slot(fork.second))
            for fork in self._query.forks
        ]
        factors += [
            self._draft.call(fn.ReachWeight(spread.link, spread.is_turned, spread.tree), slot(spread.start))
            for spread in self._query.spreads
        ]
        weight: exp.Expression = exp.cast(exp.Literal.number(1), _COUNT) if not factors else factors[0]
        for factor in factors[1:]:
            weight = exp.Mul(this=weight, expression=factor)
        return weight

    def _root(self, argument: ir.PropertyRef) -> Vertex:
        """The vertex whose branches contain the variable of a property."""
        return next(
            vertex
            for vertex in self._query.weighted
            if any(branch.tree.find(argument.variable) for branch in vertex.branches)
        )

    def _is_pruned(self, argument: ir.Expr) -> TypeGuard[ir.PropertyRef]:
        return isinstance(argument, ir.PropertyRef) and argument.variable not in self._frame.variables

    def _count_of(self, argument: ir.Expr) -> exp.Expression:
        """The number of matches in which a property is not null."""
        if self._is_pruned(argument):
            root = self._root(argument)
            counted = self._draft.call(fn.WeightedCount(root.type, root.branches, argument), slot(root.variable))
            return exp.Mul(this=counted, expression=self.weight(root.variable))
        value = operand(self._draft, self._frame, argument)
        is_given = exp.Not(this=exp.Is(this=value, expression=exp.Null()))
        return exp.Case(ifs=[exp.If(this=is_given, true=self.weight())])

    def _sum_of(self, argument: ir.Expr) -> exp.Expression:
        if self._is_pruned(argument):
            root = self._root(argument)
            summed = self._draft.call(fn.WeightedSum(root.type, root.branches, argument), slot(root.variable))
            return self._matched(exp.Mul(this=summed, expression=exp.cast(self.weight(root.variable), FLOAT64)))
        value = exp.cast(operand(self._draft, self._frame, argument), FLOAT64)
        return self._matched(exp.Mul(this=value, expression=exp.cast(self.weight(), FLOAT64)))

    def _matched(self, value: exp.Expression) -> exp.Expression:
        """A value of rows with a match; those without are no part of a sum, not even as zero."""
        if not self._query.may_be_void:
            return value
        matches = exp.GT(this=self.weight(), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=matches, true=value)])


def _zero() -> exp.Expression:
    return exp.cast(exp.Literal.number(0), FLOAT64)


def _or_zero(number: exp.Expression) -> exp.Expression:
    return exp.Coalesce(this=number, expressions=[exp.cast(exp.Literal.number(0), _COUNT)])
