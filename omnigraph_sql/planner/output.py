"""What a query returns: projection or groups, in order, cut to the limit."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from omnigraph_compiler import ir
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.expressions import aggregate, expression, operand, sort_key
from omnigraph_sql.planner.plan import Draft, Frame, column, ordered, slot
from omnigraph_sql.planner.ranking import fused, ranked, with_score


def shown_rows(draft: Draft, frame: Frame, plan: ir.ReadPlan) -> exp.Select:
    if isinstance(plan.output, ir.Aggregate):
        return _grouped(draft, frame, plan.output, plan)
    matches = frame
    rank = None if plan.order is None else plan.order.rank
    extra: list[str] = []
    order: list[exp.Expression] = []
    if isinstance(rank, ir.Rrf):
        frame = fused(draft, frame, rank, plan)
        extra, order = ["$$place", draft.fused[rank]], [ordered(column("$$place"))]
    elif rank is not None:
        frame = ranked(draft, frame, rank, plan)
        extra, order = ["$$rank"], [ordered(column("$$rank"), descending=isinstance(rank, ir.Bm25))]
    for item in plan.output.items:
        if isinstance(item.expr, ir.Rrf) and item.expr not in draft.fused:
            frame = with_score(draft, frame, extra, item.expr, plan, matches)
            extra.append(draft.fused[item.expr])
    order += _order(draft, frame, plan)
    if plan.limit is not None:
        frame = _cut(draft, frame, extra, order, plan.limit)
        order = []
    assert frame.name is not None
    items = [expression(draft, frame, item.expr).as_(item.name, quoted=True) for item in plan.output.items]
    select = exp.select(*items).from_(exp.to_table(frame.name))
    return select.order_by(*order) if order else select


def _cut(draft: Draft, frame: Frame, extra: list[str], order: Sequence[exp.Expression], limit: ir.Limit) -> Frame:
    """The first rows, before anything else is fetched for them."""
    assert frame.name is not None
    names = [*(slot(name) for name in frame.variables), *(column(name) for name in extra)]
    select = exp.select(*names).from_(exp.to_table(frame.name))
    select = select.order_by(*order) if order else select
    return Frame(draft.cte(select.limit(limit.count)), frame.variables)


def _order(draft: Draft, frame: Frame, plan: ir.ReadPlan) -> list[exp.Expression]:
    if plan.order is None:
        return []
    keys = [ordered(sort_key(draft, frame, key.expr), descending=key.direction == "desc") for key in plan.order.keys]
    return [*keys, *(ordered(sort_key(draft, frame, each)) for each in plan.order.tie_break)]


def _grouped(draft: Draft, frame: Frame, output: ir.Aggregate, plan: ir.ReadPlan) -> exp.Select:
    """Groups; ids are fetched when the groups are known, sorting is by what they are."""
    assert frame.name is not None
    items, keys, shown = [], [], []
    variables: dict[str, str] = {}
    for number, item in enumerate(output.items):
        name = f"${number}"
        if isinstance(item.expr, ir.AggregateCall):
            items.append(aggregate(draft, frame, item.expr).as_(name, quoted=True))
            shown.append(column(name).as_(item.name, quoted=True))
            continue
        if isinstance(item.expr, ir.IdRef):
            variables[name] = frame.variables[item.expr.variable]
            key: exp.Expression = slot(item.expr.variable)
            shown_key = draft.call(fn.Get(variables[name], "id", None), column(name))
        else:
            key, shown_key = operand(draft, frame, item.expr), column(name)
        items.append(key.as_(name, quoted=True))
        keys.append(key.copy())
        shown.append(shown_key.as_(item.name, quoted=True))
    select = exp.select(*items).from_(exp.to_table(frame.name))
    varying = [key for key in keys if not isinstance(key, exp.Parameter)]
    if varying:
        select = select.group_by(*varying)
    elif keys:
        # One group at most, and none without rows.
        select = select.having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0)))
    grouped = draft.cte(select)
    order = [] if plan.order is None else _group_order(draft, output, variables, plan.order)
    if plan.limit is not None:
        names = [column(f"${number}") for number in range(len(output.items))]
        cut = exp.select(*names).from_(exp.to_table(grouped))
        cut = (cut.order_by(*order) if order else cut).limit(plan.limit.count)
        return exp.select(*shown).from_(exp.to_table(draft.cte(cut)))
    final = exp.select(*shown).from_(exp.to_table(grouped))
    return final.order_by(*order) if order else final


def _group_order(draft: Draft, output: ir.Aggregate, variables: dict[str, str], order: ir.Order) -> list[exp.Expression]:
    places = {item.name: f"${number}" for number, item in enumerate(output.items)}
    by_expr = {item.expr: f"${number}" for number, item in enumerate(output.items)}

    def key(expr: ir.Expr) -> exp.Expression:
        name = places[expr.name] if isinstance(expr, ir.ColumnRef) else by_expr[expr]
        return draft.call(fn.IdRank(variables[name]), column(name)) if name in variables else column(name)

    keys = [ordered(key(each.expr), descending=each.direction == "desc") for each in order.keys]
    return [*keys, *(ordered(key(each)) for each in order.tie_break)]
