"""The SQL tree of a read plan: one common table expression per step, positions in columns, values as parameters."""

from __future__ import annotations

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.planner.output import shown_rows
from omnigraph_sql.planner.plan import Draft, Frame, SqlPlan
from omnigraph_sql.planner.steps import matched


def build(plan: ir.ReadPlan, catalog: Catalog) -> SqlPlan:
    """The SQL of a read plan."""
    draft = Draft(catalog)
    tree = shown_rows(draft, matched(draft, Frame(None), plan.steps), plan)
    for name, select in draft.ctes:
        tree = tree.with_(name, as_=select)
    return SqlPlan(tree, draft.relations, draft.functions, draft.values, draft.inputs, plan.output.items)
