"""From a read plan to SQL: lift it to its pattern, apply the rules, make one common table expression per step."""

from __future__ import annotations

from sqlglot import exp

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.planner.estimate import Estimate
from omnigraph_sql.planner.expressions import operand
from omnigraph_sql.planner.from_ir import lift
from omnigraph_sql.planner.logical import Facts, Logical, Pattern, Vertex
from omnigraph_sql.planner.output import output_rows
from omnigraph_sql.planner.plan import FLOAT64, Draft, Frame, SqlPlan, slot
from omnigraph_sql.planner.rules import apply_rules
from omnigraph_sql.planner.steps import matched


def build(plan: ir.ReadPlan, catalog: Catalog, facts: Facts) -> SqlPlan:
    """The SQL of a read plan."""
    query = apply_rules(lift(plan), Estimate(catalog, facts))
    draft = Draft(catalog)
    tree = output_rows(draft, matched(draft, Frame(None), query.steps), query)
    return _finished(draft, tree, query)


def build_positions(vertex: Vertex, value: ir.PropertyRef | None, catalog: Catalog, facts: Facts) -> SqlPlan:
    """The SQL of the nodes that a vertex allows: their positions `v` and, for `value`, a property as a number `x`."""
    query = apply_rules(Logical(pattern=Pattern((vertex,)), output=ir.Project(())), Estimate(catalog, facts))
    draft = Draft(catalog)
    frame = matched(draft, Frame(None), query.steps)
    assert frame.name is not None
    items = [slot(vertex.variable).as_("v", quoted=True)]
    if value is not None:
        number = operand(draft, frame, value)
        if not catalog.nodes[vertex.type].properties[value.property].type.is_numeric:
            # Such values are only counted, so any number stands for one.
            is_given = exp.Not(this=exp.Is(this=number, expression=exp.Null()))
            number = exp.Case(ifs=[exp.If(this=is_given, true=exp.Literal.number(0))])
        items.append(exp.cast(number, FLOAT64).as_("x", quoted=True))
    return _finished(draft, exp.select(*items).from_(exp.to_table(frame.name)), query)


def _finished(draft: Draft, tree: exp.Select, query: Logical) -> SqlPlan:
    whole = draft.whole(tree)
    texts = [whole, *(stage for _, stage in draft.stages)]
    named = {table.name for text in texts for table in text.find_all(exp.Table)}
    called = {call.this for text in texts for call in text.find_all(exp.Anonymous)}
    return SqlPlan(
        tree=whole,
        relations={name: relation for name, relation in draft.relations.items() if name in named},
        functions={name: function for name, function in draft.functions.items() if name in called},
        values=draft.values,
        inputs=draft.inputs,
        columns=query.output.items,
        stages=tuple(draft.stages),
        applied=query.applied,
        shortcut=query.shortcut,
    )
