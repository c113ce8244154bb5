"""The steps of a match as SQL, one common table expression each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from omnigraph_compiler import ir
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.conditions import split
from omnigraph_sql.planner.estimate import key_values
from omnigraph_sql.planner.expressions import compare
from omnigraph_sql.planner.logical import (
    CloseStep,
    HopStep,
    Link,
    MeetStep,
    NegatedPattern,
    Restrict,
    Scan,
    ScanEdges,
    Step,
    Tree,
    Vertex,
    Where,
    Without,
)
from omnigraph_sql.planner.plan import Draft, Frame, column, into, slot
from omnigraph_sql.table_keys import TableKey

_HOP = "$$hop"
_END = "$$end"


def matched(draft: Draft, frame: Frame, steps: Iterable[Step]) -> Frame:
    """The rows that steps make of the rows before them."""
    for step in steps:
        match step:
            case Scan():
                frame = _scan(draft, frame, step)
            case ScanEdges():
                frame = _scan_edges(draft, frame, step)
            case HopStep():
                frame = _hop(draft, frame, step)
            case MeetStep():
                frame = _meet(draft, frame, step)
            case CloseStep():
                frame = _close(draft, frame, step.link)
            case Where():
                frame = where(draft, frame, [compare(draft, frame, step.condition)])
            case Restrict():
                frame = _restrict(draft, frame, step.vertex)
            case Without():
                frame = _without(draft, frame, step.negation)
    return frame


# Nodes and edges to begin with


def _scan(draft: Draft, frame: Frame, scan: Scan) -> Frame:
    relation, unchecked = _source(draft, scan)
    variable = scan.vertex.variable
    source = exp.select(into(column("v"), variable)).from_(relation)
    scanned = Frame(draft.cte(source), {variable: scan.vertex.table_key})
    return _cross_joined(draft, frame, _restrict(draft, scanned, unchecked))


def _source(draft: Draft, scan: Scan) -> tuple[exp.Table, Vertex]:
    """The relation of a scan, and the vertex with the filters and branches that the relation does not apply."""
    vertex = scan.vertex
    key = key_values(draft.catalog, vertex)
    if key is not None:
        values = tuple(draft.input(value) for value in key)
        return draft.relation(fn.Lookup(vertex.type, values)), vertex
    conditions, rest = vertex.conditions
    relation: fn.Relation = fn.Nodes(vertex.type, conditions)
    if vertex.branches:
        relation = fn.Support(vertex.type, vertex.branches, conditions, scan.top_k)
    return draft.relation(relation), replace(vertex, filters=rest, branches=())


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
        conditions = [compare(draft, replace(one, name=inner), condition) for condition in rest]
        columns = exp.select(slot(link.edge_variable).as_("e", quoted=True), column("s"), column("d"))
        edges = Frame(draft.cte(columns.from_(exp.to_table(inner)).where(*conditions)), {})
    ends = (link.source, link.target) if link.direction == "out" else (link.target, link.source)
    assert edges.name is not None
    names = [into(column(name), variable) for name, variable in zip("esd", (link.edge_variable, *ends), strict=True)]
    variables = {
        link.edge_variable: f"edge:{link.edge}",
        link.source: scan.source.table_key,
        link.target: scan.target.table_key,
    }
    scanned = Frame(draft.cte(exp.select(*names).from_(exp.to_table(edges.name))), variables)
    for vertex in (scan.source, scan.target):
        scanned = _restrict(draft, scanned, vertex)
    return _cross_joined(draft, frame, scanned)


def _cross_joined(draft: Draft, frame: Frame, other: Frame) -> Frame:
    """Every row of the one with every row of the other."""
    if frame.name is None:
        return other
    assert other.name is not None
    variables = frame.variables | other.variables
    names = [slot(name) for name in variables]
    joined = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(other.name), join_type="cross")
    return Frame(draft.cte(joined), variables)


# Traversals


def _hop(draft: Draft, frame: Frame, hop: HopStep) -> Frame:
    assert frame.name is not None
    link, end = hop.link, hop.vertex
    variables = frame.variables | {end.variable: end.table_key}
    if link.edge_variable is not None:
        edges = _with_edges(draft, frame, link, hop.start, end.variable)
        return _restrict(draft, Frame(edges.name, edges.variables | variables), end)
    slots = [slot(name) for name in frame.variables]
    direction = link.seen_from(hop.start)
    if hop.functional:
        call = draft.call(fn.Single(link.edge, direction), slot(hop.start))
        one = Frame(draft.cte(exp.select(*slots, into(call, end.variable)).from_(exp.to_table(frame.name))), variables)
        is_neighbour = exp.Not(this=exp.Is(this=slot(end.variable), expression=exp.Null()))
        return _restrict(draft, where(draft, one, [is_neighbour]), end)
    call = draft.call(_traversal(link, hop.start), slot(hop.start))
    target = into(exp.Unnest(expressions=[call]), end.variable)
    return _restrict(draft, Frame(draft.cte(exp.select(*slots, target).from_(exp.to_table(frame.name))), variables), end)


def _with_edges(draft: Draft, frame: Frame, link: Link, start: str, end: str) -> Frame:
    """A row per stored edge: the edge, and its other end as `end`."""
    assert frame.name is not None
    assert link.edge_variable is not None
    slots = [slot(name) for name in frame.variables]
    call = draft.call(fn.HopFunction(link.edge, link.seen_from(start), True), slot(start))
    unnested = exp.select(*slots, exp.Unnest(expressions=[call]).as_(_HOP, quoted=True))
    inner = draft.cte(unnested.from_(exp.to_table(frame.name)))
    fields = [
        into(exp.Bracket(this=column(_HOP), expressions=[exp.Literal.string(name)]), variable)
        for name, variable in (("d", end), ("e", link.edge_variable))
    ]
    select = exp.select(*(name.copy() for name in slots), *fields).from_(exp.to_table(inner))
    edges = Frame(draft.cte(select), frame.variables | {link.edge_variable: f"edge:{link.edge}"})
    return where(draft, edges, _satisfied(draft, edges, link.edge_variable, link.filters), also=(end,))


def _traversal(link: Link, start: str) -> fn.Function:
    direction = link.seen_from(start)
    if (link.minimum, link.maximum) == (1, 1):
        return fn.HopFunction(link.edge, direction, False)
    return fn.Reach(link.edge, direction, link.minimum, link.maximum, start != link.source)


def _meet(draft: Draft, frame: Frame, meet: MeetStep) -> Frame:
    assert frame.name is not None
    end = meet.vertex
    first, second, common = _common(meet)
    call = draft.call(common, slot(first), slot(second))
    slots = [slot(name) for name in frame.variables]
    select = exp.select(*slots, into(exp.Unnest(expressions=[call]), end.variable)).from_(exp.to_table(frame.name))
    return _restrict(draft, Frame(draft.cte(select), frame.variables | {end.variable: end.table_key}), end)


def _common(meet: MeetStep) -> tuple[str, str, fn.Common]:
    """Two variables, and the function of their common neighbours."""
    first, second = meet.links
    one, other = (link.other(meet.vertex.variable) for link in meet.links)
    return one, other, fn.Common((first.edge, second.edge), (first.seen_from(one), second.seen_from(other)))


def _close(draft: Draft, frame: Frame, link: Link) -> Frame:
    if link.edge_variable is None:
        return where(draft, frame, [_joined(draft, link)])
    edges = _with_edges(draft, frame, link, link.source, _END)
    is_target = exp.EQ(this=slot(_END), expression=slot(link.target))
    return where(draft, edges, [is_target])


def _joined(draft: Draft, link: Link) -> exp.Expression:
    joined = fn.JoinedPath(link.edge, link.direction, link.minimum, link.maximum)
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


def _restrict(draft: Draft, frame: Frame, vertex: Vertex) -> Frame:
    """The rows that satisfy the conditions of a vertex, match its branches and none of its negations."""
    conditions = _satisfied(draft, frame, vertex.variable, vertex.filters)
    if vertex.branches:
        conditions.append(_is_positive(draft.call(fn.Weight(vertex.type, vertex.branches), slot(vertex.variable))))
    frame = where(draft, frame, conditions)
    for negation in vertex.negations:
        frame = _without(draft, frame, negation)
    return frame


def _satisfied(draft: Draft, frame: Frame, variable: str, filters: Sequence[ir.Compare]) -> list[exp.Expression]:
    """Conditions on one variable. Those with plain values are a function: so the text is the same for all values."""
    simple, rest = split(filters)
    compared = [compare(draft, frame, condition) for condition in rest]
    return [draft.call(fn.Holds(frame.variables[variable], simple), slot(variable)), *compared] if simple else compared


def _is_positive(number: exp.Expression) -> exp.Expression:
    return exp.GT(this=number, expression=exp.Literal.number(0))


def _without(draft: Draft, frame: Frame, negation: NegatedPattern) -> Frame:
    outer = [name for name in negation.outer if name in frame.variables]
    if negation.branches is not None:
        (name,) = outer
        weight = fn.Weight(TableKey(frame.variables[name]).name, negation.branches)
        none = exp.EQ(this=draft.call(weight, slot(name)), expression=exp.Literal.number(0))
        return where(draft, frame, [none])
    if not outer:
        return _without_solutions(draft, frame, negation)
    if negation.is_condition:
        holds = exp.Coalesce(this=exp.and_(*_conditions(draft, frame, negation.steps)), expressions=[exp.false()])
        return where(draft, frame, [exp.Not(this=holds)])
    return _anti_joined(draft, draft.stored(frame) if negation.stores_rows else frame, negation, outer)


def _anti_joined(draft: Draft, frame: Frame, negation: NegatedPattern, outer: Sequence[str]) -> Frame:
    """The rows for which a body has no match; it is matched once for each combination of the outer variables."""
    assert frame.name is not None
    seeds = exp.select(*(slot(name) for name in outer)).distinct().from_(exp.to_table(frame.name))
    body = matched(draft, Frame(draft.cte(seeds), {name: frame.variables[name] for name in outer}), negation.steps)
    assert body.name is not None
    matches = draft.cte(exp.select(*(slot(name) for name in outer)).distinct().from_(exp.to_table(body.name)))
    on = exp.and_(*(exp.EQ(this=slot(name, frame.name), expression=slot(name, matches)) for name in outer))
    names = [into(slot(name, frame.name), name) for name in frame.variables]
    select = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(matches), on=on, join_type="left anti")
    return Frame(draft.cte(select), frame.variables)


def _conditions(draft: Draft, frame: Frame, steps: Sequence[Step]) -> list[exp.Expression]:
    """The steps of a body that are conditions on the rows (`rules/evaluate_negations.py`)."""
    conditions: list[exp.Expression] = []
    for step in steps:
        match step:
            case Where():
                conditions.append(compare(draft, frame, step.condition))
            case Restrict():
                conditions += [compare(draft, frame, condition) for condition in step.vertex.filters]
            case CloseStep():
                conditions.append(_joined(draft, step.link))
            case MeetStep():
                first, second, common = _common(step)
                number = fn.CommonWeight(common.edges, common.directions, Tree(step.vertex))
                conditions.append(_is_positive(draft.call(number, slot(first), slot(second))))
            case _:
                raise AssertionError(f"{type(step).__name__} is no condition")
    return conditions


def _without_solutions(draft: Draft, frame: Frame, negation: NegatedPattern) -> Frame:
    """All rows if a body that shares no variable with them has no match, otherwise none."""
    body = matched(draft, Frame(None), negation.steps)
    assert body.name is not None
    number = exp.Count(this=exp.Star()).as_("$$solutions", quoted=True)
    counted = draft.cte(exp.select(number).from_(exp.to_table(body.name)))
    names = [slot(name) for name in frame.variables]
    assert frame.name is not None
    none = exp.EQ(this=column("$$solutions"), expression=exp.Literal.number(0))
    select = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(counted), join_type="cross").where(none)
    return Frame(draft.cte(select), frame.variables)
