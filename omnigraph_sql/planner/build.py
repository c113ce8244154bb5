"""From a read plan to SQL: lifted to its pattern, rewritten by rules, then one common table expression per step."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.planner.aggregates import rows_are_groups, told_apart
from omnigraph_sql.planner.estimate import Estimate, key_values
from omnigraph_sql.planner.expressions import operand
from omnigraph_sql.planner.lift import lift
from omnigraph_sql.planner.logical import Facts, Logical, Pattern, Scan, Vertex
from omnigraph_sql.planner.output import shown_rows
from omnigraph_sql.planner.plan import FLOAT64, Draft, Frame, SqlPlan, Total, slot
from omnigraph_sql.planner.rules import apply_rules
from omnigraph_sql.planner.steps import matched


def build(plan: ir.ReadPlan, catalog: Catalog, facts: Facts) -> SqlPlan:
    """The SQL of a read plan."""
    query = apply_rules(lift(plan), Estimate(catalog, facts))
    draft = Draft(catalog)
    draft.hanging = dict(query.hanging)
    draft.heaviest = _heaviest(draft, query)
    tree = shown_rows(draft, matched(draft, Frame(None), query.steps), query)
    total = _total(catalog, query)
    found = _finished(draft, tree, query if total is None else query.with_note("counted without making rows"))
    return replace(found, total=total)


def _total(catalog: Catalog, query: Logical) -> Total | None:
    """What a query counts, if all it does is count the matches of one vertex and of what hangs on it."""
    if not isinstance(query.output, ir.Aggregate) or query.may_be_void or (query.limit and query.limit.count < 1):
        return None
    if not all(
        isinstance(item.expr, ir.AggregateCall)
        and item.expr.function == "count"
        and isinstance(item.expr.argument, ir.IdRef)
        for item in query.output.items
    ):
        return None
    match query.steps:
        case (Scan(vertex),) if not vertex.conditions[1] and all(each.branches is not None for each in vertex.negations):
            return Total(vertex, query.branches(vertex.variable), key_values(catalog, vertex))
    return None


def _heaviest(draft: Draft, query: Logical) -> int | None:
    """How many nodes will do, if rows are the nodes of one variable and the first ones those with the most matches."""
    if not isinstance(query.output, ir.Aggregate) or not query.order or not query.order.keys or not query.limit:
        return None
    match query.steps:
        case (Scan(vertex),) if not vertex.negations and not vertex.conditions[1] and query.branches(vertex.variable):
            pass
        case _:
            return None
    if query.order.keys[0].direction != "desc" or not rows_are_groups(query, told_apart(draft, query)):
        return None
    items = {item.name: item.expr for item in query.output.items}
    first = query.order.keys[0].expr
    first = items[first.name] if isinstance(first, ir.ColumnRef) else first
    counts = isinstance(first, ir.AggregateCall) and first.function == "count" and isinstance(first.argument, ir.IdRef)
    return query.limit.count if counts and query.limit.count > 0 else None


def build_positions(vertex: Vertex, value: ir.PropertyRef | None, catalog: Catalog, facts: Facts) -> SqlPlan:
    """The SQL of the nodes that a vertex allows: their positions `v` and, if asked for, a property as a number `x`."""
    query = apply_rules(Logical(Pattern((vertex,)), ir.Project(())), Estimate(catalog, facts))
    draft = Draft(catalog)
    frame = matched(draft, Frame(None), query.steps)
    assert frame.name is not None
    items = [slot(vertex.variable).as_("v", quoted=True)]
    if value is not None:
        found = operand(draft, frame, value)
        if not catalog.nodes[vertex.type].properties[value.property].type.is_numeric:
            # It is only ever counted: any number will do where there is a value.
            there = exp.Not(this=exp.Is(this=found, expression=exp.Null()))
            found = exp.Case(ifs=[exp.If(this=there, true=exp.Literal.number(0))])
        items.append(exp.cast(found, FLOAT64).as_("x", quoted=True))
    return _finished(draft, exp.select(*items).from_(exp.to_table(frame.name)), query)


def _finished(draft: Draft, tree: exp.Select, query: Logical) -> SqlPlan:
    whole = draft.whole(tree)
    texts = [whole, *(stage for _, stage in draft.stages)]
    named = {table.name for text in texts for table in text.find_all(exp.Table)}
    called = {call.this for text in texts for call in text.find_all(exp.Anonymous)}
    return SqlPlan(
        whole,
        {name: relation for name, relation in draft.relations.items() if name in named},
        {name: function for name, function in draft.functions.items() if name in called},
        draft.values,
        draft.inputs,
        query.output.items,
        tuple(draft.stages),
        query.applied,
    )
