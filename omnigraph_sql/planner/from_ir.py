"""Lifts the steps of the IR to the pattern they match, so that rules can choose other steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from omnigraph_compiler import ir
from omnigraph_sql.planner.logical import Link, Logical, NegatedPattern, Pattern, Vertex, used_by
from omnigraph_sql.table_keys import TableKey

_HIDDEN = "#"


def lift(plan: ir.ReadPlan) -> Logical:
    """The pattern of a read plan, with its output."""
    return Logical(pattern=_pattern(plan.steps, {}), output=plan.output, order=plan.order, limit=plan.limit)


def _pattern(steps: Sequence[ir.Step], outer: Mapping[str, str]) -> Pattern:
    """The pattern of a block; `outer` are the variables of the blocks around it, with their types or edges."""
    same = _closings(steps)
    vertices: dict[str, Vertex] = {}
    links: list[Link] = []
    conditions: list[ir.Compare] = []
    inner: list[ir.AntiJoin] = []
    for step in steps:
        match step:
            case ir.NodeScan():
                vertices[step.variable] = Vertex(step.variable, step.type)
                conditions += step.filters
            case ir.Expand():
                target = same.get(step.target, step.target)
                if target == step.target:
                    vertices[target] = Vertex(target, step.target_type)
                conditions += step.target_filters
                links.append(_link(step, target))
            case ir.Filter():
                conditions.append(ir.Compare(step.left, step.op, step.right))
            case ir.AntiJoin():
                inner.append(step)
    conditions = [condition for condition in conditions if _closed(condition) not in same]
    tables = {**outer, **{name: f"node:{vertex.type}" for name, vertex in vertices.items()}}
    tables |= {link.edge_variable: f"edge:{link.edge}" for link in links if link.edge_variable is not None}
    negations = [_negation(anti, tables) for anti in inner]
    seeds = tuple(sorted(name for name in outer if name not in vertices))
    for name in seeds:
        key = TableKey(tables[name])
        if key.is_node:
            vertices[name] = Vertex(name, key.name)
    return _settled(Pattern((), tuple(links), seeds=seeds), vertices, conditions, negations)


def _closings(steps: Sequence[ir.Step]) -> dict[str, str]:
    """Hidden variables that stand for another one: both ends of their traversal are bound."""
    closings = {}
    for step in steps:
        match step:
            case ir.Filter(left=ir.IdRef(variable=hidden), op="=", right=ir.IdRef(variable=bound)) if hidden.startswith(
                _HIDDEN
            ):
                closings[hidden] = bound
    return closings


def _closed(condition: ir.Compare) -> str | None:
    return condition.left.variable if isinstance(condition.left, ir.IdRef) and condition.op == "=" else None


def _link(step: ir.Expand, target: str) -> Link:
    ends = (target, step.source) if step.reversed else (step.source, target)
    direction = ir.OPPOSITE[step.direction] if step.reversed else step.direction
    return Link(*ends, step.edge, direction, minimum=step.minimum, maximum=step.maximum, edge_variable=step.edge_variable)


def _negation(anti: ir.AntiJoin, tables: Mapping[str, str]) -> NegatedPattern:
    return NegatedPattern(_pattern(anti.inner, {name: tables[name] for name in anti.outer_variables if name in tables}))


def _settled(
    pattern: Pattern, vertices: dict[str, Vertex], conditions: Sequence[ir.Compare], negations: Sequence[NegatedPattern]
) -> Pattern:
    """Conditions and negations of one variable go to where it is; the others stay with the pattern."""
    links, filters, rest = list(pattern.links), [], []
    for condition in conditions:
        used = used_by(condition)
        name = next(iter(used), "") if len(used) == 1 else ""
        place = next((at for at, link in enumerate(links) if name and link.edge_variable == name), None)
        if name in vertices:
            vertices[name] = replace(vertices[name], filters=(*vertices[name].filters, condition))
        elif place is not None:
            links[place] = replace(links[place], filters=(*links[place].filters, condition))
        else:
            filters.append(condition)
    for negation in negations:
        name = negation.outer[0] if len(negation.outer) == 1 else ""
        if name in vertices:
            vertices[name] = replace(vertices[name], negations=(*vertices[name].negations, negation))
        else:
            rest.append(negation)
    return replace(
        pattern, vertices=tuple(vertices.values()), links=tuple(links), filters=tuple(filters), negations=tuple(rest)
    )
