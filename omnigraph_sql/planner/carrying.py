"""Groups of edges: what they are told by, and what is added up, are columns of the edges to begin with.

Nothing comes between the edges and their groups, so every row is wanted. To call a function once for all of them takes a
fraction of what it takes to call it for each batch that an engine makes.
"""

from __future__ import annotations

from sqlglot import exp

from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.conditions import split
from omnigraph_sql.planner.logical import Logical, ScanEdges
from omnigraph_sql.planner.plan import Draft, column, slot
from omnigraph_sql.storage.columns import arrow_type


def carried(draft: Draft, select: exp.Select, query: Logical) -> exp.Select:
    """The groups of a query, taken straight from a relation, if its rows are the edges of one scan."""
    match query.steps:
        case (ScanEdges() as scan,) if query.numbered and scan.source.is_free and scan.target.is_free:
            simple, rest = split(scan.link.filters)
        case _:
            return select
    if rest:
        return select
    link = scan.link
    assert link.edge_variable is not None
    ends = (link.source, link.target) if link.direction == "out" else (link.target, link.source)
    places = {slot(name).name: place for name, place in zip((link.edge_variable, *ends), "esd", strict=True)}
    columns: dict[str, tuple[fn.Get | fn.Number, tuple[str, ...]]] = {}

    def moved(node: exp.Expression) -> exp.Expression:
        function = draft.functions.get(node.this) if isinstance(node, exp.Anonymous) else None
        if isinstance(function, fn.Get | fn.Number) and _is_narrow(function):
            name = ", ".join(f"{each.name}.{of}" for each, of in zip(node.expressions, _columns(function), strict=True))
            columns[name] = function, tuple(places[each.name] for each in node.expressions)
            return column(name)
        return column(places[node.name]) if isinstance(node, exp.Column) else node

    found = select.transform(moved)
    assert isinstance(found, exp.Select)
    kept = {each.name for each in found.find_all(exp.Column)} & set(places.values())
    further = tuple((name, function, given) for name, (function, given) in columns.items())
    edges = fn.Edges(link.edge, simple)
    draft.relations = {name: each for name, each in draft.relations.items() if each != edges}
    return found.from_(draft.relation(fn.Carried(edges, tuple(sorted(kept)) or ("e",), further)))


def _is_narrow(function: fn.Get | fn.Number) -> bool:
    """Whether its values are numbers: others may take more memory than the engine has for all rows at once."""
    return isinstance(function, fn.Number) or (function.type is not None and _has_width(function))


def _has_width(function: fn.Get) -> bool:
    assert function.type is not None
    try:
        return bool(arrow_type(function.type).bit_width <= 64)
    except ValueError:
        return False


def _columns(function: fn.Get | fn.Number) -> tuple[str, ...]:
    return tuple(name for _, name in function.places) if isinstance(function, fn.Number) else (function.column,)
