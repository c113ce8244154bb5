"""Aggregates as SQL. Where branches were taken off the pattern, a row counts as often as they can be matched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeGuard

from sqlglot import exp

from omnigraph_compiler import ir
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.expressions import operand
from omnigraph_sql.planner.logical import Branch, Hop, Logical
from omnigraph_sql.planner.plan import FLOAT64, Draft, Frame, slot

_COUNT = "BIGINT"
Told: TypeAlias = Mapping[str, tuple[str, ...]]
"""Variables that groups are told apart by, with the properties of their key if it is that."""
_KINDS: dict[str, Any] = {"sum": exp.Sum, "avg": exp.Avg, "min": exp.Min, "max": exp.Max}


def aggregate(draft: Draft, frame: Frame, call: ir.AggregateCall, query: Logical) -> exp.Expression:
    """One aggregate over the rows of a group."""
    if not query.hanging and not query.may_be_void:
        return _plain(draft, frame, call)
    return _Weighed(draft, frame, query).aggregate(call)


def of_one_row(draft: Draft, frame: Frame, call: ir.AggregateCall, query: Logical) -> exp.Expression:
    """The aggregate over a group that is known to be one row."""
    return _Weighed(draft, frame, query, total=lambda value: value).aggregate(call)


def is_positive(draft: Draft, frame: Frame, query: Logical) -> exp.Expression:
    """Whether a group has anything in it, when there may be rows that match in no way."""
    return exp.GT(this=exp.Sum(this=_Weighed(draft, frame, query).weight()), expression=exp.Literal.number(0))


def told_apart(draft: Draft, query: Logical) -> Told:
    """The variables that the grouping items tell apart, by id or by key."""
    assert isinstance(query.output, ir.Aggregate)
    items = [item.expr for item in query.output.items]
    ids = {item.variable for item in items if isinstance(item, ir.IdRef)}
    given = {(item.variable, item.property) for item in items if isinstance(item, ir.PropertyRef)}
    found: dict[str, tuple[str, ...]] = {}
    for vertex in query.pattern.vertices:
        key = draft.catalog.nodes[vertex.type].key or ()
        if key and all((vertex.variable, name) in given for name in key):
            found[vertex.variable] = key
        elif vertex.variable in ids:
            found[vertex.variable] = ()
    return found


def rows_are_groups(query: Logical, told: Told) -> bool:
    """Whether every row is a group of its own: the grouping items tell all nodes of the pattern apart."""
    if query.may_be_void or any(link.edge_variable is not None for link in query.pattern.links):
        return False
    known = set(told)
    for step in query.steps:
        if isinstance(step, Hop) and step.functional and step.start in known:
            known.add(step.vertex.variable)
    return bool(known) and all(vertex.variable in known for vertex in query.pattern.vertices)


def _plain(draft: Draft, frame: Frame, call: ir.AggregateCall) -> exp.Expression:
    argument = call.argument
    if call.function == "count":
        counted = slot(argument.variable) if isinstance(argument, ir.IdRef) else operand(draft, frame, argument)
        return exp.Count(this=counted)
    given = operand(draft, frame, argument)
    if call.function in ("sum", "avg"):
        given = exp.cast(given, FLOAT64)
    found: exp.Expression = _KINDS[call.function](this=given)
    return found


def _sum(value: exp.Expression) -> exp.Expression:
    return exp.Sum(this=value)


class _Weighed:
    """Aggregates over rows with weights."""

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
            given = operand(self._draft, self._frame, call.argument)
            found: exp.Expression = _KINDS[call.function](this=given)
            return found if self._total is _sum else given
        if isinstance(call.argument, ir.IdRef):
            return _or_zero(self._total(self.weight()))
        if call.function == "count":
            return _or_zero(self._total(self._known(call.argument)))
        if call.function == "sum":
            return self._total(self._sum_of(call.argument))
        known = exp.cast(self._total(self._known(call.argument)), FLOAT64)
        return exp.Div(this=self._total(self._sum_of(call.argument)), expression=exp.Nullif(this=known, expression=_zero()))

    def weight(self, without: str | None = None) -> exp.Expression:
        """In how many ways a row can be matched; `without` leaves out what hangs on a variable."""
        factors = [
            self._draft.call(fn.Weight(self._type(name), branches), slot(name))
            for name, branches in self._query.hanging
            if name != without
        ]
        factors += [
            self._draft.call(fn.CommonWeight(fork.edges, fork.directions, fork.tree), slot(fork.first), slot(fork.second))
            for fork in self._query.forks
        ]
        factors += [
            self._draft.call(fn.ReachWeight(spread.link, spread.is_turned, spread.tree), slot(spread.start))
            for spread in self._query.spreads
        ]
        found: exp.Expression = exp.cast(exp.Literal.number(1), _COUNT) if not factors else factors[0]
        for factor in factors[1:]:
            found = exp.Mul(this=found, expression=factor)
        return found

    def _type(self, variable: str) -> str:
        return self._frame.variables[variable].removeprefix("node:")

    def _home(self, argument: ir.PropertyRef) -> tuple[str, tuple[Branch, ...]]:
        """What the variable of a property hangs on."""
        return next(
            (name, branches)
            for name, branches in self._query.hanging
            if any(branch.tree.find(argument.variable) for branch in branches)
        )

    def _hangs(self, argument: ir.Expr) -> TypeGuard[ir.PropertyRef]:
        return isinstance(argument, ir.PropertyRef) and argument.variable not in self._frame.variables

    def _known(self, argument: ir.Expr) -> exp.Expression:
        """How often a property is there."""
        if self._hangs(argument):
            home = self._home(argument)
            counted = self._draft.call(fn.WeightedCount(self._type(home[0]), home[1], argument), slot(home[0]))
            return exp.Mul(this=counted, expression=self.weight(home[0]))
        value = operand(self._draft, self._frame, argument)
        there = exp.Not(this=exp.Is(this=value, expression=exp.Null()))
        return exp.Case(ifs=[exp.If(this=there, true=self.weight())])

    def _sum_of(self, argument: ir.Expr) -> exp.Expression:
        if self._hangs(argument):
            home = self._home(argument)
            summed = self._draft.call(fn.WeightedSum(self._type(home[0]), home[1], argument), slot(home[0]))
            return self._matched(exp.Mul(this=summed, expression=exp.cast(self.weight(home[0]), FLOAT64)))
        value = exp.cast(operand(self._draft, self._frame, argument), FLOAT64)
        return self._matched(exp.Mul(this=value, expression=exp.cast(self.weight(), FLOAT64)))

    def _matched(self, value: exp.Expression) -> exp.Expression:
        """A value of rows that match; one that matches in no way is no part of a sum, not even as zero."""
        if not self._query.may_be_void:
            return value
        matches = exp.GT(this=self.weight(), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=matches, true=value)])


def _zero() -> exp.Expression:
    return exp.cast(exp.Literal.number(0), FLOAT64)


def _or_zero(number: exp.Expression) -> exp.Expression:
    return exp.Coalesce(this=number, expressions=[exp.cast(exp.Literal.number(0), _COUNT)])
