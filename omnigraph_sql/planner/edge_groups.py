"""The relation of edges with group keys and aggregated values as columns (`rules/group_edges.py`)."""

from __future__ import annotations

from sqlglot import exp

from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.conditions import split
from omnigraph_sql.planner.logical import Link
from omnigraph_sql.planner.plan import Draft, column, slot
from omnigraph_sql.storage.columns import arrow_type


def from_edge_groups(draft: Draft, select: exp.Select, link: Link) -> exp.Select:
    """A select of groups that takes its rows from the edges of a link, with function calls replaced by columns."""
    assert link.edge_variable is not None
    simple, _ = split(link.filters)
    ends = (link.source, link.target) if link.direction == "out" else (link.target, link.source)
    places = {slot(name).name: place for name, place in zip((link.edge_variable, *ends), "esd", strict=True)}
    columns: dict[str, tuple[fn.Get | fn.Number, tuple[str, ...]]] = {}

    def as_column(node: exp.Expression) -> exp.Expression:
        function = draft.functions.get(node.this) if isinstance(node, exp.Anonymous) else None
        if isinstance(function, fn.Get | fn.Number) and _is_narrow(function):
            arguments = [argument.name for argument in node.expressions]
            name = ", ".join(f"{argument}.{of}" for argument, of in zip(arguments, _columns(function), strict=True))
            columns[name] = function, tuple(places[argument] for argument in arguments)
            return column(name)
        return column(places[node.name]) if isinstance(node, exp.Column) else node

    groups = select.transform(as_column)
    assert isinstance(groups, exp.Select)
    used = {node.name for node in groups.find_all(exp.Column)} & set(places.values())
    computed = tuple((name, function, arguments) for name, (function, arguments) in columns.items())
    edges = fn.Edges(link.edge, simple)
    draft.relations = {name: relation for name, relation in draft.relations.items() if relation != edges}
    return groups.from_(draft.relation(fn.EdgeGroups(edges, tuple(sorted(used)) or ("e",), computed)))


def _is_narrow(function: fn.Get | fn.Number) -> bool:
    """True if its values are numbers: others may take more memory than the engine has for all rows at once."""
    return isinstance(function, fn.Number) or (function.type is not None and _has_width(function))


def _has_width(function: fn.Get) -> bool:
    assert function.type is not None
    try:
        return bool(arrow_type(function.type).bit_width <= 64)
    except ValueError:
        return False


def _columns(function: fn.Get | fn.Number) -> tuple[str, ...]:
    return tuple(name for _, name in function.places) if isinstance(function, fn.Number) else (function.column,)
