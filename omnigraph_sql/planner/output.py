"""The output of a query: projection or groups, in order, cut to the limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from omnigraph_compiler import ir
from omnigraph_compiler.types import FLOATS
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.aggregates import aggregate, is_positive, of_one_row
from omnigraph_sql.planner.edge_groups import from_edge_groups
from omnigraph_sql.planner.estimate import key_values
from omnigraph_sql.planner.expressions import expression, operand, sort_key
from omnigraph_sql.planner.group_keys import GroupKeys, group_keys, rows_are_groups
from omnigraph_sql.planner.logical import Logical
from omnigraph_sql.planner.plan import Draft, Frame, column, ordered, slot
from omnigraph_sql.planner.ranking import fused, ranked, with_score


def output_rows(draft: Draft, frame: Frame, plan: Logical) -> exp.Select:
    """The rows that a query returns, from those that match."""
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
        if plan.is_ordered_by_search:
            extra, order = ["$$rank", "$$place"], [ordered(column("$$place"))]
    for item in plan.output.items:
        if isinstance(item.expr, ir.Rrf) and item.expr not in draft.fused:
            frame = with_score(draft, frame, extra, item.expr, plan, matches)
            extra.append(draft.fused[item.expr])
    order += [] if plan.is_ordered_by_search else _order(draft, frame, plan)
    if plan.limit is not None and not plan.is_ordered_by_search:
        frame = _cut(draft, frame, extra, order, plan.limit)
        order = []
    assert frame.name is not None
    items = [expression(draft, frame, item.expr).as_(item.name, quoted=True) for item in plan.output.items]
    select = exp.select(*items).from_(exp.to_table(frame.name))
    return select.order_by(*order) if order else select


def _cut(draft: Draft, frame: Frame, extra: list[str], order: Sequence[exp.Expression], limit: ir.Limit) -> Frame:
    """The first rows, cut before values are fetched for them."""
    assert frame.name is not None
    names = [*(slot(name) for name in frame.variables), *(column(name) for name in extra)]
    select = exp.select(*names).from_(exp.to_table(frame.name))
    select = select.order_by(*order) if order else select
    return Frame(draft.cte(select.limit(limit.number)), frame.variables)


def _order(draft: Draft, frame: Frame, plan: Logical) -> list[exp.Expression]:
    if plan.order is None:
        return []
    keys = [ordered(sort_key(draft, frame, key.expr), descending=key.direction == "desc") for key in plan.order.keys]
    # At most one node has a given key, so its id breaks no tie.
    one = {vertex.variable for vertex in plan.pattern.vertices if key_values(draft.catalog, vertex) is not None}
    tie_break = [expr for expr in plan.order.tie_break if not (isinstance(expr, ir.IdRef) and expr.variable in one)]
    return _varying([*keys, *(ordered(sort_key(draft, frame, expr)) for expr in tie_break)])


def _varying(keys: Sequence[exp.Ordered]) -> list[exp.Expression]:
    """Keys that can differ from row to row. A parameter sorts nothing, and not every engine takes one."""
    return [key for key in keys if not isinstance(key.this, exp.Parameter)]


@dataclass(frozen=True)
class _Group:
    """An item to group by: the grouping key, and from that the output value and the sort key."""

    key: exp.Expression
    output: Callable[[exp.Expression], exp.Expression]
    sort_key: Callable[[exp.Expression], exp.Expression]


def _group(draft: Draft, frame: Frame, expr: ir.Expr, keys: GroupKeys, plan: Logical) -> _Group:
    """Group nodes, and properties of nodes that the group identifies, by position; fetch values for groups only."""

    def unchanged(key: exp.Expression) -> exp.Expression:
        return key

    if isinstance(expr, ir.IdRef):
        table_key = frame.variables[expr.variable]
        get, rank = fn.Get(table_key, "id", None), fn.IdRank(table_key)
        return _Group(slot(expr.variable), partial(draft.call, get), partial(draft.call, rank))
    if isinstance(expr, ir.PropertyRef) and expr.variable in keys:
        table_key = frame.variables[expr.variable]
        get = fn.Get(table_key, expr.property, expr.type)
        key = fn.Get(table_key, expr.property, expr.type, expr.type.scalar in FLOATS)
        return _Group(slot(expr.variable), partial(draft.call, get), partial(draft.call, key))
    if isinstance(expr, ir.PropertyRef) and expr in plan.numbered:
        places = tuple((frame.variables[text.variable], text.property) for text in plan.numbered)
        value = partial(draft.call, fn.Numbered(places, plan.numbered.index(expr)))
        # Numbers sort alike, but DataFusion 54 drops a sort column that is a grouping key and no output.
        return _Group(draft.call(fn.Number(places), *(slot(text.variable) for text in plan.numbered)), value, value)
    return _Group(operand(draft, frame, expr), unchanged, unchanged)


def _grouped(draft: Draft, frame: Frame, output: ir.Aggregate, plan: Logical) -> exp.Select:
    """Groups, in order, cut to the limit."""
    assert frame.name is not None
    items, shown = [], []
    groups: dict[str, _Group] = {}
    keys = group_keys(draft.catalog, plan)
    single = rows_are_groups(plan, keys)
    for number, item in enumerate(output.items):
        name = f"${number}"
        if isinstance(item.expr, ir.AggregateCall):
            value = (of_one_row if single else aggregate)(draft, frame, item.expr, plan)
            items.append(value.as_(name, quoted=True))
            shown.append(column(name).as_(item.name, quoted=True))
        else:
            groups[name] = _group(draft, frame, item.expr, keys, plan)
            items.append(groups[name].key.as_(name, quoted=True))
            shown.append(groups[name].output(column(name)).as_(item.name, quoted=True))
    select = exp.select(*items).from_(exp.to_table(frame.name))
    if not single:
        select = _by_groups(draft, frame, select, [group.key.copy() for group in groups.values()], plan)
        select = select if plan.edge_groups is None else from_edge_groups(draft, select, plan.edge_groups)
    grouped = draft.cte(select)
    order = [] if plan.order is None else _group_order(output, groups, plan.order, keys)
    if plan.limit is not None:
        names = [column(f"${number}") for number in range(len(output.items))]
        cut = exp.select(*names).from_(exp.to_table(grouped))
        cut = (cut.order_by(*order) if order else cut).limit(plan.limit.number)
        return exp.select(*shown).from_(exp.to_table(draft.cte(cut)))
    final = exp.select(*shown).from_(exp.to_table(grouped))
    return final.order_by(*order) if order else final


def _by_groups(draft: Draft, frame: Frame, select: exp.Select, keys: Sequence[exp.Expression], plan: Logical) -> exp.Select:
    varying = [key for key in keys if not isinstance(key, exp.Parameter)]
    if varying:
        select = select.group_by(*dict.fromkeys(varying))
        return select.having(is_positive(draft, frame, plan)) if plan.may_be_void else select
    if not keys:
        return select
    # One group at most, and none without rows.
    some = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
    return select.having(is_positive(draft, frame, plan) if plan.may_be_void else some)


def _group_order(output: ir.Aggregate, groups: dict[str, _Group], order: ir.Order, keys: GroupKeys) -> list[exp.Expression]:
    places = {item.name: f"${number}" for number, item in enumerate(output.items)}
    by_expr = {item.expr: f"${number}" for number, item in enumerate(output.items)}

    def key(expr: ir.Expr) -> exp.Expression:
        name = places[expr.name] if isinstance(expr, ir.ColumnRef) else by_expr[expr]
        return groups[name].sort_key(column(name)) if name in groups else column(name)

    items = {item.name: item.expr for item in output.items}

    def resolved(expr: ir.Expr) -> ir.Expr:
        return items[expr.name] if isinstance(expr, ir.ColumnRef) else expr

    sort_keys = [ordered(key(by.expr), descending=by.direction == "desc") for by in order.keys]
    before = [resolved(by.expr) for by in order.keys]
    tie_breaks = _tie_breaks([resolved(expr) for expr in order.tie_break], keys, before)
    return [*sort_keys, *(ordered(key(expr)) for expr in tie_breaks)]


def _tie_breaks(items: Sequence[ir.Expr], group_keys: GroupKeys, before: Sequence[ir.Expr]) -> list[ir.Expr]:
    """The items that can break a tie: after the id or the whole key of a node its other properties cannot."""
    tie_breaks: list[ir.Expr] = []
    identified: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for number, item in enumerate([*before, *items], -len(before)):
        is_new = not isinstance(item, ir.PropertyRef | ir.IdRef) or item.variable not in identified
        if number >= 0 and is_new:
            tie_breaks.append(item)
        if not isinstance(item, ir.PropertyRef | ir.IdRef):
            continue
        if isinstance(item, ir.PropertyRef):
            seen.add((item.variable, item.property))
        key = group_keys.get(item.variable) or ("",)
        if isinstance(item, ir.IdRef) or all((item.variable, name) in seen for name in key):
            identified.add(item.variable)
    return tie_breaks
