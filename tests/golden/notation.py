"""A one-line notation for IR steps, so that golden files can state plans people can read."""

from __future__ import annotations

from omnigraph_compiler import ir


def notate(plan: ir.Plan) -> list[str]:
    """One line per stage; the steps inside an anti-join are indented."""
    if isinstance(plan, ir.WritePlan):
        return [_statement(statement) for statement in plan.statements]
    return [line for stage in plan.stages() for line in _stage(stage)]


def _stage(stage: ir.Step | ir.Project | ir.Aggregate | ir.Order | ir.Limit) -> list[str]:
    match stage:
        case ir.NodeScan():
            return [f"scan {stage.variable}: {stage.type}{_filters(stage.filters)}"]
        case ir.Expand():
            hops = "" if (stage.minimum, stage.maximum) == (1, 1) else f" {{{stage.minimum},{stage.maximum}}}"
            edge = f" as {stage.edge_variable}" if stage.edge_variable else ""
            against = " against the clause" if stage.reversed else ""
            head = f"expand {stage.source} -{stage.edge}- {stage.target}: {stage.target_type} {stage.direction}"
            return [f"{head}{hops}{edge}{against}{_filters(stage.target_filters)}"]
        case ir.Filter():
            return [f"filter {_compare(ir.Compare(stage.left, stage.op, stage.right))}"]
        case ir.AntiJoin():
            inner = [f"  {line}" for step in stage.inner for line in _stage(step)]
            return [f"anti join on {', '.join(stage.outer_variables)}", *inner]
        case ir.Project() | ir.Aggregate():
            items = ", ".join(f"{item.name} = {_expr(item.expr)}" for item in stage.items)
            return [f"{type(stage).__name__.lower()} {items}"]
        case ir.Order():
            rank = [f"rank {_expr(stage.rank)}"] if stage.rank else []
            keys = [f"{_expr(key.expr)} {key.direction}" for key in stage.keys]
            ties = [f"then {_expr(tie)}" for tie in stage.tie_break]
            return [f"order {', '.join([*rank, *keys, *ties])}"]
        case ir.Limit():
            return [f"limit {stage.count if isinstance(stage.count, int) else _expr(stage.count)}"]


def _statement(statement: ir.Insert | ir.Update | ir.Delete) -> str:
    match statement:
        case ir.Insert():
            return f"insert {statement.type_kind} {statement.type} {_assignments(statement.assignments)}"
        case ir.Update():
            assigned = _assignments(statement.assignments)
            return f"update node {statement.type} {assigned} where {_compare(statement.predicate)}"
        case ir.Delete():
            return f"delete {statement.type_kind} {statement.type} where {_compare(statement.predicate)}"


def _assignments(assignments: tuple[ir.Assign, ...]) -> str:
    return "{" + ", ".join(f"{each.property}: {_expr(each.value)}" for each in assignments) + "}"


def _filters(filters: tuple[ir.Compare, ...]) -> str:
    return " where " + " and ".join(_compare(each) for each in filters) if filters else ""


def _compare(compare: ir.Compare) -> str:
    return f"{_expr(compare.left)} {compare.op} {_expr(compare.right)}"


def _expr(expr: ir.Expr | None) -> str:
    match expr:
        case ir.PropertyRef():
            return f"{expr.variable}.{expr.property}" if expr.variable else expr.property
        case ir.IdRef():
            return f"{expr.variable}.id"
        case ir.ParamRef():
            return f"${expr.name}"
        case ir.Constant():
            return repr(expr.to_json()["value"])
        case ir.TextMatch():
            return _call(expr.function, expr.field, expr.query, expr.max_edits)
        case ir.Nearest():
            return f"{_call('nearest', expr.field, expr.query)} by {expr.metric}"
        case ir.Bm25():
            return _call("bm25", expr.field, expr.query)
        case ir.Rrf():
            return _call("rrf", expr.first, expr.second, expr.k)
        case ir.AggregateCall():
            return _call(expr.function, expr.argument)
        case ir.ColumnRef():
            return f"column {expr.name}"
        case None:
            return ""


def _call(function: str, *arguments: ir.Expr | None) -> str:
    return f"{function}({', '.join(_expr(argument) for argument in arguments if argument is not None)})"
