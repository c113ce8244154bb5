"""Lowering: from resolved clauses to the IR pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph_compiler import ir
from omnigraph_compiler.query.read import Bound, ResolvedBlock, ResolvedRead, Traversed
from omnigraph_compiler.query.scope import Scope


def lower_read(scope: Scope, read: ResolvedRead) -> ir.ReadPlan:
    steps = _lower_block(scope, read.block, frozenset())
    output = ir.Aggregate(read.items) if read.grouped else ir.Project(read.items)
    limit = None if read.limit is None else ir.Limit(read.limit)
    order = _order(read) if read.keys or limit else None
    return ir.ReadPlan(steps, output, order, limit)


def _order(read: ResolvedRead) -> ir.Order:
    keys = list(read.keys)
    if read.grouped:
        grouping = tuple(ir.ColumnRef(item.name) for item in read.items if not isinstance(item.expr, ir.AggregateCall))
        named = zip(read.key_names, keys, strict=True)
        return ir.Order(tuple(_key(ir.ColumnRef(name or ""), direction) for name, (_, direction) in named), grouping)
    rank = None
    if keys and isinstance(keys[0][0].expr, ir.Nearest | ir.Bm25 | ir.Rrf):
        rank = keys.pop(0)[0].expr
    tie_break = tuple(ir.IdRef(name) for name in read.variables)
    return ir.Order(tuple(_key(key.expr, direction) for key, direction in keys), tie_break, rank)  # type: ignore[arg-type]


def _key(expr: ir.Expr, direction: str) -> ir.OrderKey:
    return ir.OrderKey(expr, "desc" if direction == "desc" else "asc")


def _lower_block(scope: Scope, block: ResolvedBlock, outer: frozenset[str]) -> tuple[ir.Step, ...]:
    """Lower a block: scans and expansions, then filters, then negations. Variables in `outer` are already bound."""
    steps: list[ir.Step] = []
    bound = set(outer)
    matches = _matches(block.bindings)
    components = _components(block, outer)
    for component in components:
        if not component & outer:
            start, type_ = _start(block, component)
            steps.append(ir.NodeScan(start, type_, tuple(matches.pop(start, ()))))
            bound.add(start)
        traversals = [traversal for traversal in block.traversals if traversal.source in component]
        _expand(scope, traversals, bound, matches, steps)
    # The remaining matches are on variables of the enclosing rows: conditions on those rows.
    conditions = [compare for filters in matches.values() for compare in filters] + block.filters
    for compare in conditions:
        if not _push(steps, compare, outer):
            steps.append(ir.Filter(compare.left, compare.op, compare.right))
    for names, inner in block.negations:
        steps.append(ir.AntiJoin(names, _lower_block(scope, inner, frozenset(bound | set(_edge_variables(steps))))))
    return tuple(steps)


def _matches(bindings: Iterable[Bound]) -> dict[str, list[ir.Compare]]:
    matches: dict[str, list[ir.Compare]] = {}
    for binding in bindings:
        matches.setdefault(binding.variable, []).extend(binding.filters)
    return matches


def _components(block: ResolvedBlock, outer: frozenset[str]) -> list[set[str]]:
    """Return the sets of variables connected by traversals, in the order of their first mention."""
    parent = {name: name for name in block.mentions}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    anchors = [name for name in parent if name in outer]
    for name in anchors[1:]:
        parent[root(name)] = root(anchors[0])
    for traversal in block.traversals:
        parent[root(traversal.target)] = root(traversal.source)
    groups: dict[str, set[str]] = {}
    for name in parent:
        groups.setdefault(root(name), set()).add(name)
    return list(groups.values())


def _start(block: ResolvedBlock, component: set[str]) -> tuple[str, str]:
    """Return the start of a component and its type: its first binding, else the source of its first traversal."""
    for binding in block.bindings:
        if binding.variable in component:
            return binding.variable, binding.type
    first = next(traversal for traversal in block.traversals if traversal.source in component)
    return first.source, first.source_type


def _expand(
    scope: Scope,
    traversals: list[Traversed],
    bound: set[str],
    matches: dict[str, list[ir.Compare]],
    steps: list[ir.Step],
) -> None:
    """Add a step for each traversal, always choosing one with a bound end."""
    waiting = list(traversals)
    while waiting:
        traversal = next(candidate for candidate in waiting if candidate.source in bound or candidate.target in bound)
        waiting.remove(traversal)
        if traversal.source in bound and traversal.target in bound:
            hidden = scope.hidden()
            steps.append(_step(traversal, traversal.source, hidden, traversal.direction, traversal.target_type, False))
            steps.append(ir.Filter(ir.IdRef(hidden), "=", ir.IdRef(traversal.target)))
            continue
        forward = traversal.source in bound
        if forward:
            step = _step(traversal, traversal.source, traversal.target, traversal.direction, traversal.target_type, False)
        else:
            direction = ir.OPPOSITE[traversal.direction]
            step = _step(traversal, traversal.target, traversal.source, direction, traversal.source_type, True)
        steps.append(replace(step, target_filters=tuple(matches.pop(step.target, ()))))
        bound.add(step.target)


def _step(
    traversal: Traversed, source: str, target: str, direction: ir.Direction, target_type: str, against: bool
) -> ir.Expand:
    return ir.Expand(
        source=source,
        target=target,
        edge=traversal.edge,
        direction=direction,
        target_type=target_type,
        minimum=traversal.minimum,
        maximum=traversal.maximum,
        edge_variable=traversal.edge_variable,
        reversed=against,
    )


def _push(steps: list[ir.Step], compare: ir.Compare, outer: frozenset[str]) -> bool:
    """Move a condition on exactly one node variable into the step that introduces the variable."""
    names = _variables(compare.left) | _variables(compare.right)
    if len(names) != 1 or names & outer:
        return False
    (name,) = names
    for position, step in enumerate(steps):
        if isinstance(step, ir.NodeScan) and step.variable == name:
            steps[position] = replace(step, filters=(*step.filters, compare))
            return True
        if isinstance(step, ir.Expand) and step.target == name:
            steps[position] = replace(step, target_filters=(*step.target_filters, compare))
            return True
    return False


def _variables(expr: ir.Expr | None) -> set[str]:
    match expr:
        case ir.PropertyRef() | ir.IdRef():
            return {expr.variable}
        case ir.TextMatch():
            return _variables(expr.field) | _variables(expr.query) | _variables(expr.max_edits)
        case ir.Nearest() | ir.Bm25():
            return _variables(expr.field) | _variables(expr.query)
        case _:
            return set()


def _edge_variables(steps: Iterable[ir.Step]) -> list[str]:
    return [step.edge_variable for step in steps if isinstance(step, ir.Expand) and step.edge_variable]
