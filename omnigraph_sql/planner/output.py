"""What a query returns: projection or groups, in order, cut to the limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from omnigraph_compiler import ir
from omnigraph_compiler.types import FLOATS
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.aggregates import Told, aggregate, is_positive, of_one_row, rows_are_groups, told_apart
from omnigraph_sql.planner.carrying import carried
from omnigraph_sql.planner.estimate import key_values
from omnigraph_sql.planner.expressions import expression, operand, sort_key
from omnigraph_sql.planner.logical import Logical
from omnigraph_sql.planner.plan import Draft, Frame, column, ordered, slot
from omnigraph_sql.planner.ranking import fused, is_placed, ranked, with_score


def shown_rows(draft: Draft, frame: Frame, plan: Logical) -> exp.Select:
    if isinstance(plan.output, ir.Aggregate):
        return _grouped(draft, frame, plan.output, plan)
    matches = frame
    rank = None if plan.order is None else plan.order.rank
    placed = is_placed(draft, plan)
    extra: list[str] = []
    order: list[exp.Expression] = []
    if isinstance(rank, ir.Rrf):
        frame = fused(draft, frame, rank, plan)
        extra, order = ["$$place", draft.fused[rank]], [ordered(column("$$place"))]
    elif rank is not None:
        frame = ranked(draft, frame, rank, plan)
        extra, order = ["$$rank"], [ordered(column("$$rank"), descending=isinstance(rank, ir.Bm25))]
        if placed:
            extra, order = ["$$rank", "$$place"], [ordered(column("$$place"))]
    for item in plan.output.items:
        if isinstance(item.expr, ir.Rrf) and item.expr not in draft.fused:
            frame = with_score(draft, frame, extra, item.expr, plan, matches)
            extra.append(draft.fused[item.expr])
    order += [] if placed else _order(draft, frame, plan)
    if plan.limit is not None and not placed:
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


def _order(draft: Draft, frame: Frame, plan: Logical) -> list[exp.Expression]:
    if plan.order is None:
        return []
    keys = [ordered(sort_key(draft, frame, key.expr), descending=key.direction == "desc") for key in plan.order.keys]
    # There is one node at most with a key, and nothing to tell apart.
    one = {vertex.variable for vertex in plan.pattern.vertices if key_values(draft.catalog, vertex) is not None}
    telling = [each for each in plan.order.tie_break if not (isinstance(each, ir.IdRef) and each.variable in one)]
    return _varying([*keys, *(ordered(sort_key(draft, frame, each)) for each in telling)])


def _varying(keys: Sequence[exp.Ordered]) -> list[exp.Expression]:
    """Keys that can differ from row to row: a value sorts nothing, and not every engine takes one."""
    return [key for key in keys if not isinstance(key.this, exp.Parameter)]


@dataclass(frozen=True)
class _Group:
    """An item to group by: what tells groups apart, what is shown of it, and what it is sorted by."""

    key: exp.Expression
    shown: Callable[[exp.Expression], exp.Expression]
    sorted: Callable[[exp.Expression], exp.Expression]


def _group(draft: Draft, frame: Frame, expr: ir.Expr, told: Told, plan: Logical) -> _Group:
    """A node is told by its position, and so is what else is shown of it. Values are fetched for groups only."""

    def itself(place: exp.Expression) -> exp.Expression:
        return place

    if isinstance(expr, ir.IdRef):
        table_key = frame.variables[expr.variable]
        get, rank = fn.Get(table_key, "id", None), fn.IdRank(table_key)
        return _Group(slot(expr.variable), partial(draft.call, get), partial(draft.call, rank))
    if isinstance(expr, ir.PropertyRef) and expr.variable in told:
        table_key = frame.variables[expr.variable]
        get = fn.Get(table_key, expr.property, expr.type)
        key = fn.Get(table_key, expr.property, expr.type, expr.type.scalar in FLOATS)
        return _Group(slot(expr.variable), partial(draft.call, get), partial(draft.call, key))
    if isinstance(expr, ir.PropertyRef) and expr in plan.numbered:
        places = tuple((frame.variables[each.variable], each.property) for each in plan.numbered)
        text = partial(draft.call, fn.Numbered(places, plan.numbered.index(expr)))
        # Numbers sort alike, but DataFusion 54 drops a column to sort by that groups are told by and that is not shown.
        return _Group(draft.call(fn.Number(places), *(slot(each.variable) for each in plan.numbered)), text, text)
    return _Group(operand(draft, frame, expr), itself, itself)


def _grouped(draft: Draft, frame: Frame, output: ir.Aggregate, plan: Logical) -> exp.Select:
    """Groups, in order, cut to the limit."""
    assert frame.name is not None
    items, shown = [], []
    groups: dict[str, _Group] = {}
    told = told_apart(draft, plan)
    single = rows_are_groups(plan, told)
    for number, item in enumerate(output.items):
        name = f"${number}"
        if isinstance(item.expr, ir.AggregateCall):
            found = (of_one_row if single else aggregate)(draft, frame, item.expr, plan)
            items.append(found.as_(name, quoted=True))
            shown.append(column(name).as_(item.name, quoted=True))
        else:
            groups[name] = _group(draft, frame, item.expr, told, plan)
            items.append(groups[name].key.as_(name, quoted=True))
            shown.append(groups[name].shown(column(name)).as_(item.name, quoted=True))
    select = exp.select(*items).from_(exp.to_table(frame.name))
    if not single:
        select = _by_groups(draft, frame, select, [group.key.copy() for group in groups.values()], plan)
        select = carried(draft, select, plan)
    grouped = draft.cte(select)
    order = [] if plan.order is None else _group_order(output, groups, plan.order, told)
    if plan.limit is not None:
        names = [column(f"${number}") for number in range(len(output.items))]
        cut = exp.select(*names).from_(exp.to_table(grouped))
        cut = (cut.order_by(*order) if order else cut).limit(plan.limit.count)
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
    none = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
    return select.having(is_positive(draft, frame, plan) if plan.may_be_void else none)


def _group_order(output: ir.Aggregate, groups: dict[str, _Group], order: ir.Order, told: Told) -> list[exp.Expression]:
    places = {item.name: f"${number}" for number, item in enumerate(output.items)}
    by_expr = {item.expr: f"${number}" for number, item in enumerate(output.items)}

    def key(expr: ir.Expr) -> exp.Expression:
        name = places[expr.name] if isinstance(expr, ir.ColumnRef) else by_expr[expr]
        return groups[name].sorted(column(name)) if name in groups else column(name)

    items = {item.name: item.expr for item in output.items}

    def meant(expr: ir.Expr) -> ir.Expr:
        return items[expr.name] if isinstance(expr, ir.ColumnRef) else expr

    keys = [ordered(key(each.expr), descending=each.direction == "desc") for each in order.keys]
    telling = _telling([meant(each) for each in order.tie_break], told, [meant(each.expr) for each in order.keys])
    return [*keys, *(ordered(key(each)) for each in telling)]


def _telling(items: Sequence[ir.Expr], told: Told, before: Sequence[ir.Expr]) -> list[ir.Expr]:
    """The items that can break a tie: after the id or the whole key of a node, what else it has is the same."""
    found: list[ir.Expr] = []
    known: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for number, item in enumerate([*before, *items], -len(before)):
        is_new = not isinstance(item, ir.PropertyRef | ir.IdRef) or item.variable not in known
        if number >= 0 and is_new:
            found.append(item)
        if not isinstance(item, ir.PropertyRef | ir.IdRef):
            continue
        if isinstance(item, ir.PropertyRef):
            seen.add((item.variable, item.property))
        key = told.get(item.variable) or ("",)
        if isinstance(item, ir.IdRef) or all((item.variable, name) in seen for name in key):
            known.add(item.variable)
    return found
