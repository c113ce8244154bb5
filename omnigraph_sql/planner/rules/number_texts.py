"""Groups by texts as groups by numbers.

Several texts have one number together: an engine finds the group of a number several times as fast as that of two.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa

from omnigraph_compiler import ir
from omnigraph_sql.planner.estimate import Estimate
from omnigraph_sql.planner.logical import Logical, Pattern
from omnigraph_sql.storage.columns import arrow_type

_MANY = 4096
"""Fewer rows than this are grouped as they are."""
_MOST = 2**62
"""What all texts together need fewer numbers than."""


def number_texts(query: Logical, estimate: Estimate) -> Logical:
    """A text to group by is told by its number among those of its column, where numbering them is less than the rows are."""
    if not isinstance(query.output, ir.Aggregate) or not all(map(query.pattern.has_vertex, _variables(query.output))):
        return query
    rows = _rows(query.pattern, estimate)
    found = [
        expr
        for item in query.output.items
        if isinstance(expr := item.expr, ir.PropertyRef)
        and arrow_type(expr.type) == pa.string()
        and rows > max(_MANY, estimate.size(query.pattern.vertex(expr.variable)))
    ]
    numbered = tuple(dict.fromkeys(found))
    numbers = math.prod(estimate.size(query.pattern.vertex(each.variable)) + 1 for each in numbered)
    if not numbered or numbers >= _MOST:
        return query
    names = ", ".join(f"${each.variable}.{each.property}" for each in numbered)
    return replace(query, numbered=numbered).with_note(f"groups by numbers of {names}")


def _variables(output: ir.Aggregate) -> set[str]:
    return {item.expr.variable for item in output.items if isinstance(item.expr, ir.PropertyRef)}


def _rows(pattern: Pattern, estimate: Estimate) -> float:
    """How many rows to expect."""
    rows = 1.0
    for vertex in pattern.vertices:
        rows *= estimate.nodes(vertex)
    for link in pattern.links:
        source, target = pattern.vertex(link.source), pattern.vertex(link.target)
        rows *= estimate.fan_out(link, source, target) / estimate.nodes(target)
    return rows
