"""Which nodes the groups of an aggregating query identify."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.planner.logical import HopStep, Logical

GroupKeys: TypeAlias = Mapping[str, tuple[str, ...]]
"""Node variables that a group has one node of, each with the properties of its key; without any if its id identifies it."""


def group_keys(catalog: Catalog, query: Logical) -> GroupKeys:
    """The variables whose id or whole key is among the items to group by."""
    assert isinstance(query.output, ir.Aggregate)
    items = [item.expr for item in query.output.items]
    ids = {item.variable for item in items if isinstance(item, ir.IdRef)}
    properties = {(item.variable, item.property) for item in items if isinstance(item, ir.PropertyRef)}
    keys: dict[str, tuple[str, ...]] = {}
    for vertex in query.pattern.vertices:
        key = catalog.nodes[vertex.type].key or ()
        if key and all((vertex.variable, name) in properties for name in key):
            keys[vertex.variable] = key
        elif vertex.variable in ids:
            keys[vertex.variable] = ()
    return keys


def rows_are_groups(query: Logical, keys: GroupKeys) -> bool:
    """True if every row is a group of its own: the items to group by identify all nodes of the pattern."""
    if query.may_be_void or any(link.edge_variable is not None for link in query.pattern.links):
        return False
    identified = set(keys)
    for step in query.steps:
        if isinstance(step, HopStep) and step.functional and step.start in identified:
            identified.add(step.vertex.variable)
    return bool(identified) and all(vertex.variable in identified for vertex in query.pattern.vertices)
