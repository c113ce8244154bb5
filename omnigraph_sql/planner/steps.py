"""The steps of a match as SQL, one common table expression each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from omnigraph_compiler import ir
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.conditions import split
from omnigraph_sql.planner.estimate import key_values
from omnigraph_sql.planner.expressions import compare
from omnigraph_sql.planner.logical import (
    Close,
    Hop,
    Link,
    Meet,
    Negation,
    Restrict,
    Scan,
    ScanEdges,
    Step,
    Tree,
    Vertex,
    Where,
    Without,
    used_by,
)
from omnigraph_sql.planner.plan import Draft, Frame, column, into, slot

_HOP = "$$hop"
_END = "$$end"
_REPEATED = 2
"""Each further negation that matches rows again would double the work before it; after so many, rows are settled first."""


def matched(draft: Draft, frame: Frame, steps: Iterable[Step]) -> Frame:
    """The rows that steps make of the rows before them."""
    for step in steps:
        match step:
            case Scan():
                frame = _scan(draft, frame, step.vertex)
            case ScanEdges():
                frame = _scan_edges(draft, frame, step)
            case Hop():
                frame = _hop(draft, frame, step)
            case Meet():
                frame = _meet(draft, frame, step)
            case Close():
                frame = _close(draft, frame, step.link)
            case Where():
                frame = where(draft, frame, [compare(draft, frame, step.condition)])
            case Restrict():
                frame = _restrict(draft, frame, step.vertex)
            case Without():
                frame = _without(draft, frame, step.negation)
    return frame


# Nodes and edges to begin with


def _scan(draft: Draft, frame: Frame, vertex: Vertex) -> Frame:
    relation, left, weighed = _source(draft, vertex)
    source = exp.select(into(column("v"), vertex.variable)).from_(relation)
    found = Frame(draft.cte(source), {vertex.variable: vertex.table_key})
    return _beside(draft, frame, _restrict(draft, found, left, weighed=weighed))


def _source(draft: Draft, vertex: Vertex) -> tuple[exp.Table, Vertex, bool]:
    """A relation that a vertex can be taken from, what is left to be seen to, and whether it saw to what hangs there."""
    key = key_values(draft.catalog, vertex)
    if key is not None:
        values = tuple(draft.input(value) for value in key)
        return draft.relation(fn.Lookup(vertex.type, values)), vertex, False
    conditions, rest = vertex.conditions
    branches = draft.hanging.get(vertex.variable)
    relation: fn.Relation = fn.Nodes(vertex.type, conditions)
    if branches:
        relation = fn.Support(vertex.type, branches, conditions, draft.heaviest)
    return draft.relation(relation), replace(vertex, filters=rest), bool(branches)


def _scan_edges(draft: Draft, frame: Frame, scan: ScanEdges) -> Frame:
    link = scan.link
    assert link.edge_variable is not None
    simple, rest = split(link.filters)
    relation = draft.relation(fn.Edges(link.edge, simple))
    edges = Frame(draft.cte(exp.select(*map(column, "esd")).from_(relation)), {})
    if rest:
        assert edges.name is not None
        one = Frame(None, {link.edge_variable: f"edge:{link.edge}"})
        raw = exp.select(into(column("e"), link.edge_variable), column("s"), column("d")).from_(exp.to_table(edges.name))
        inner = draft.cte(raw)
        conditions = [compare(draft, replace(one, name=inner), each) for each in rest]
        kept = exp.select(slot(link.edge_variable).as_("e", quoted=True), column("s"), column("d"))
        edges = Frame(draft.cte(kept.from_(exp.to_table(inner)).where(*conditions)), {})
    ends = (link.source, link.target) if link.direction == "out" else (link.target, link.source)
    assert edges.name is not None
    names = [into(column(name), variable) for name, variable in zip("esd", (link.edge_variable, *ends), strict=True)]
    variables = {
        link.edge_variable: f"edge:{link.edge}",
        link.source: scan.source.table_key,
        link.target: scan.target.table_key,
    }
    found = Frame(draft.cte(exp.select(*names).from_(exp.to_table(edges.name))), variables)
    for vertex in (scan.source, scan.target):
        found = _restrict(draft, found, vertex)
    return _beside(draft, frame, found)


def _beside(draft: Draft, frame: Frame, found: Frame) -> Frame:
    """Every row of the one with every row of the other."""
    if frame.name is None:
        return found
    assert found.name is not None
    variables = frame.variables | found.variables
    names = [slot(name) for name in variables]
    joined = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(found.name), join_type="cross")
    return Frame(draft.cte(joined), variables)


# Traversals


def _hop(draft: Draft, frame: Frame, hop: Hop) -> Frame:
    assert frame.name is not None
    link, end = hop.link, hop.vertex
    variables = frame.variables | {end.variable: end.table_key}
    if link.edge_variable is not None:
        found = _with_edges(draft, frame, link, hop.start, end.variable)
        return _restrict(draft, Frame(found.name, found.variables | variables), end)
    kept = [slot(name) for name in frame.variables]
    direction = link.seen_from(hop.start)
    if hop.functional:
        call = draft.call(fn.Single(link.edge, direction), slot(hop.start))
        one = Frame(draft.cte(exp.select(*kept, into(call, end.variable)).from_(exp.to_table(frame.name))), variables)
        known = exp.Not(this=exp.Is(this=slot(end.variable), expression=exp.Null()))
        return _restrict(draft, where(draft, one, [known]), end)
    call = draft.call(_traversal(link, hop.start), slot(hop.start))
    target = into(exp.Unnest(expressions=[call]), end.variable)
    return _restrict(draft, Frame(draft.cte(exp.select(*kept, target).from_(exp.to_table(frame.name))), variables), end)


def _with_edges(draft: Draft, frame: Frame, link: Link, start: str, end: str) -> Frame:
    """A row per stored edge: the edge, and its other end as `end`."""
    assert frame.name is not None
    assert link.edge_variable is not None
    kept = [slot(name) for name in frame.variables]
    call = draft.call(fn.Hop(link.edge, link.seen_from(start), True), slot(start))
    unnested = exp.select(*kept, exp.Unnest(expressions=[call]).as_(_HOP, quoted=True))
    inner = draft.cte(unnested.from_(exp.to_table(frame.name)))
    fields = [
        into(exp.Bracket(this=column(_HOP), expressions=[exp.Literal.string(name)]), variable)
        for name, variable in (("d", end), ("e", link.edge_variable))
    ]
    select = exp.select(*(each.copy() for each in kept), *fields).from_(exp.to_table(inner))
    found = Frame(draft.cte(select), frame.variables | {link.edge_variable: f"edge:{link.edge}"})
    return where(draft, found, _satisfied(draft, found, link.edge_variable, link.filters), also=(end,))


def _traversal(link: Link, start: str) -> fn.Function:
    direction = link.seen_from(start)
    if (link.minimum, link.maximum) == (1, 1):
        return fn.Hop(link.edge, direction, False)
    return fn.Reach(link.edge, direction, link.minimum, link.maximum, start != link.source)


def _meet(draft: Draft, frame: Frame, meet: Meet) -> Frame:
    assert frame.name is not None
    end = meet.vertex
    first, second, common = _common(meet)
    call = draft.call(common, slot(first), slot(second))
    kept = [slot(name) for name in frame.variables]
    select = exp.select(*kept, into(exp.Unnest(expressions=[call]), end.variable)).from_(exp.to_table(frame.name))
    return _restrict(draft, Frame(draft.cte(select), frame.variables | {end.variable: end.table_key}), end)


def _common(meet: Meet) -> tuple[str, str, fn.Common]:
    """Two variables, and the function of their common neighbours."""
    first, second = meet.links
    one, other = (link.other(meet.vertex.variable) for link in meet.links)
    return one, other, fn.Common((first.edge, second.edge), (first.seen_from(one), second.seen_from(other)))


def _close(draft: Draft, frame: Frame, link: Link) -> Frame:
    if link.edge_variable is None:
        return where(draft, frame, [_joined(draft, link)])
    found = _with_edges(draft, frame, link, link.source, _END)
    same = exp.EQ(this=slot(_END), expression=slot(link.target))
    return where(draft, found, [same])


def _joined(draft: Draft, link: Link) -> exp.Expression:
    joined = fn.Joined(link.edge, link.direction, link.minimum, link.maximum)
    return draft.call(joined, slot(link.source), slot(link.target))


# Conditions


def where(draft: Draft, frame: Frame, conditions: Sequence[exp.Expression], *, also: Sequence[str] = ()) -> Frame:
    """The rows that satisfy all conditions; `also` are columns to keep besides the variables."""
    if not conditions:
        return frame
    assert frame.name is not None
    names = [slot(name) for name in (*frame.variables, *(name for name in also if name not in frame.variables))]
    select = exp.select(*names).from_(exp.to_table(frame.name)).where(*conditions)
    return Frame(draft.cte(select), frame.variables)


def _restrict(draft: Draft, frame: Frame, vertex: Vertex, *, weighed: bool = False) -> Frame:
    """The conditions of a vertex on rows that have it."""
    conditions = _satisfied(draft, frame, vertex.variable, vertex.filters)
    branches = draft.hanging.get(vertex.variable)
    if branches and not weighed:
        conditions.append(_is_positive(draft.call(fn.Weight(vertex.type, branches), slot(vertex.variable))))
    frame = where(draft, frame, conditions)
    for negation in vertex.negations:
        frame = _without(draft, frame, negation)
    return frame


def _satisfied(draft: Draft, frame: Frame, variable: str, filters: Sequence[ir.Compare]) -> list[exp.Expression]:
    """Conditions on one variable. Those with plain values are a function: so the text is the same for all values."""
    simple, rest = split(filters)
    found = [compare(draft, frame, each) for each in rest]
    return [draft.call(fn.Holds(frame.variables[variable], simple), slot(variable)), *found] if simple else found


def _is_positive(number: exp.Expression) -> exp.Expression:
    return exp.GT(this=number, expression=exp.Literal.number(0))


def _without(draft: Draft, frame: Frame, negation: Negation) -> Frame:
    outer = [name for name in negation.outer if name in frame.variables]
    if negation.branches is not None:
        (name,) = outer
        weight = fn.Weight(frame.variables[name].removeprefix("node:"), negation.branches)
        none = exp.EQ(this=draft.call(weight, slot(name)), expression=exp.Literal.number(0))
        return where(draft, frame, [none])
    if not outer:
        return _without_solutions(draft, frame, negation)
    conditions = _conditions_only(draft, frame, negation.steps)
    if conditions is not None:
        holds = exp.Coalesce(this=exp.and_(*conditions), expressions=[exp.false()])
        return where(draft, frame, [exp.Not(this=holds)])
    draft.repeated += 1
    if draft.repeated > _REPEATED:
        frame = draft.settle(frame)
    assert frame.name is not None
    hanging, draft.hanging = draft.hanging, {}
    seeds = exp.select(*(slot(name) for name in outer)).distinct().from_(exp.to_table(frame.name))
    body = matched(draft, Frame(draft.cte(seeds), {name: frame.variables[name] for name in outer}), negation.steps)
    draft.hanging = hanging
    assert body.name is not None
    found = draft.cte(exp.select(*(slot(name) for name in outer)).distinct().from_(exp.to_table(body.name)))
    on = exp.and_(*(exp.EQ(this=slot(name, frame.name), expression=slot(name, found)) for name in outer))
    names = [into(slot(name, frame.name), name) for name in frame.variables]
    select = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(found), on=on, join_type="left anti")
    return Frame(draft.cte(select), frame.variables)


def _conditions_only(draft: Draft, frame: Frame, steps: Sequence[Step]) -> list[exp.Expression] | None:
    """The steps of a body as conditions on the rows, if that is all they are."""
    found: list[exp.Expression] = []
    if not all(_asked_of(step) <= frame.variables.keys() for step in steps):
        return None
    for step in steps:
        match step:
            case Where():
                found.append(compare(draft, frame, step.condition))
            case Restrict() if not step.vertex.negations:
                found += [compare(draft, frame, each) for each in step.vertex.filters]
            case Close() if step.link.edge_variable is None:
                found.append(_joined(draft, step.link))
            case Meet() if not step.vertex.negations:
                first, second, common = _common(step)
                number = fn.CommonWeight(common.edges, common.directions, Tree(step.vertex))
                found.append(_is_positive(draft.call(number, slot(first), slot(second))))
            case _:
                return None
    return found or None


def _asked_of(step: Step) -> set[str]:
    """The variables that a condition or a meeting needs."""
    match step:
        case Where():
            return set(used_by(step.condition))
        case Restrict():
            return {step.vertex.variable}
        case Close():
            return set(step.link.ends)
        case Meet():
            return {link.other(step.vertex.variable) for link in step.links}
        case _:
            return set()


def _without_solutions(draft: Draft, frame: Frame, negation: Negation) -> Frame:
    """A body that has nothing to do with the rows: all stay, or none."""
    hanging, draft.hanging = draft.hanging, {}
    body = matched(draft, Frame(None), negation.steps)
    draft.hanging = hanging
    assert body.name is not None
    number = exp.Count(this=exp.Star()).as_("$$solutions", quoted=True)
    counted = draft.cte(exp.select(number).from_(exp.to_table(body.name)))
    names = [slot(name) for name in frame.variables]
    assert frame.name is not None
    none = exp.EQ(this=column("$$solutions"), expression=exp.Literal.number(0))
    select = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(counted), join_type="cross").where(none)
    return Frame(draft.cte(select), frame.variables)
