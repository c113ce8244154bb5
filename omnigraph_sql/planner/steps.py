"""The steps of a match as SQL, one common table expression each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from omnigraph_compiler import ir
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.expressions import compare
from omnigraph_sql.planner.plan import Draft, Frame, column, into, slot


def _scan(draft: Draft, frame: Frame, scan: ir.NodeScan) -> Frame:
    relation = _source(draft, scan)
    source = exp.select(into(column("v"), scan.variable)).from_(exp.to_table(relation, quoted=True))
    found = Frame(None, {scan.variable: f"node:{scan.type}"})
    if frame.name is None:
        found = replace(found, name=draft.cte(source))
        return _where(draft, found, [compare(draft, found, each) for each in scan.filters])
    inner = replace(found, name=draft.cte(source))
    inner = _where(draft, inner, [compare(draft, inner, each) for each in scan.filters])
    variables = frame.variables | found.variables
    names = [slot(name) for name in variables]
    assert inner.name is not None
    joined = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(inner.name), join_type="cross")
    return Frame(draft.cte(joined), variables)


def _source(draft: Draft, scan: ir.NodeScan) -> str:
    """All nodes of the type, or those with a key that is given."""
    node = draft.catalog.nodes[scan.type]
    given = {
        each.left.property: each.right
        for each in scan.filters
        if each.op == "=" and isinstance(each.left, ir.PropertyRef) and isinstance(each.right, ir.ParamRef | ir.Constant)
    }
    if node.key is None or not all(name in given for name in node.key):
        return draft.relation(fn.Nodes(scan.type), f"nodes_{scan.type}")
    names = []
    for name in node.key:
        value = given[name]
        assert isinstance(value, ir.ParamRef | ir.Constant)
        names.append(draft.input(value))
    return draft.relation(fn.Lookup(scan.type, tuple(names)), f"find_{scan.type}")


def _expand(draft: Draft, frame: Frame, expand: ir.Expand) -> Frame:
    assert frame.name is not None
    kept = [slot(name) for name in frame.variables]
    variables = frame.variables | {expand.target: f"node:{expand.target_type}"}
    if expand.edge_variable is not None:
        call = draft.call(fn.Hop(expand.edge, expand.direction, True), slot(expand.source))
        unnested = exp.select(*kept, exp.Unnest(expressions=[call]).as_("$$hop", quoted=True))
        inner = draft.cte(unnested.from_(exp.to_table(frame.name)))
        fields = [
            into(exp.Bracket(this=column("$$hop"), expressions=[exp.Literal.string(name)]), variable)
            for name, variable in (("d", expand.target), ("e", expand.edge_variable))
        ]
        select = exp.select(*(each.copy() for each in kept), *fields).from_(exp.to_table(inner))
        variables |= {expand.edge_variable: f"edge:{expand.edge}"}
    else:
        call = draft.call(_traversal(expand), slot(expand.source))
        unnested_target = into(exp.Unnest(expressions=[call]), expand.target)
        select = exp.select(*kept, unnested_target).from_(exp.to_table(frame.name))
    found = Frame(draft.cte(select), variables)
    return _where(draft, found, [compare(draft, found, each) for each in expand.target_filters])


def _traversal(expand: ir.Expand) -> fn.Function:
    if (expand.minimum, expand.maximum) == (1, 1):
        return fn.Hop(expand.edge, expand.direction, False)
    return fn.Reach(expand.edge, expand.direction, expand.minimum, expand.maximum, expand.reversed)


def _where(draft: Draft, frame: Frame, conditions: Sequence[exp.Expression]) -> Frame:
    if not conditions:
        return frame
    assert frame.name is not None
    names = [slot(name) for name in frame.variables]
    select = exp.select(*names).from_(exp.to_table(frame.name)).where(*conditions)
    return Frame(draft.cte(select), frame.variables)


def _anti_join(draft: Draft, frame: Frame, anti: ir.AntiJoin) -> Frame:
    hop = _only_hop(anti)
    if hop is not None:
        has_any = draft.call(fn.HasAny(hop.edge, hop.direction), slot(hop.source))
        return _where(draft, frame, [exp.Not(this=has_any)])
    outer = [name for name in anti.outer_variables if name in frame.variables]
    if not outer:
        return _without_solutions(draft, frame, anti)
    assert frame.name is not None
    seeds = exp.select(*(slot(name) for name in outer)).distinct().from_(exp.to_table(frame.name))
    body = matched(draft, Frame(draft.cte(seeds), {name: frame.variables[name] for name in outer}), anti.inner)
    assert body.name is not None
    found = draft.cte(exp.select(*(slot(name) for name in outer)).distinct().from_(exp.to_table(body.name)))
    on = exp.and_(*(exp.EQ(this=slot(name, frame.name), expression=slot(name, found)) for name in outer))
    names = [into(slot(name, frame.name), name) for name in frame.variables]
    select = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(found), on=on, join_type="left anti")
    return Frame(draft.cte(select), frame.variables)


def _without_solutions(draft: Draft, frame: Frame, anti: ir.AntiJoin) -> Frame:
    """A body that has nothing to do with the rows: all stay, or none."""
    body = matched(draft, Frame(None), anti.inner)
    assert body.name is not None
    number = exp.Count(this=exp.Star()).as_("$$solutions", quoted=True)
    counted = draft.cte(exp.select(number).from_(exp.to_table(body.name)))
    names = [slot(name) for name in frame.variables]
    assert frame.name is not None
    none = exp.EQ(this=column("$$solutions"), expression=exp.Literal.number(0))
    select = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(counted), join_type="cross").where(none)
    return Frame(draft.cte(select), frame.variables)


def matched(draft: Draft, frame: Frame, steps: Iterable[ir.Step]) -> Frame:
    for step in steps:
        match step:
            case ir.NodeScan():
                frame = _scan(draft, frame, step)
            case ir.Expand():
                frame = _expand(draft, frame, step)
            case ir.Filter():
                condition = ir.Compare(step.left, step.op, step.right)
                frame = _where(draft, frame, [compare(draft, frame, condition)])
            case ir.AntiJoin():
                frame = _anti_join(draft, frame, step)
    return frame


def _only_hop(anti: ir.AntiJoin) -> ir.Expand | None:
    """The hop of a body that asks for nothing but a neighbour."""
    match anti.inner:
        case (ir.Expand(minimum=1, target_filters=()) as hop,) if hop.source in anti.outer_variables:
            return hop
    return None
