"""The SQL tree of a read plan: one common table expression per step, positions in columns, values as parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlglot import exp

from omnigraph_compiler import Catalog, PropType, ir
from omnigraph_compiler.types import FLOATS, INTEGERS, NUMERIC
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.values import Compared, Decided, Input, Listed, Member, Plain, Positive, Value

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS: dict[str, Any] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_FLOAT64 = "DOUBLE"
Named = TypeVar("Named")


@dataclass(frozen=True)
class SqlPlan:
    """A query as SQL, with everything that its names mean."""

    tree: exp.Select
    relations: dict[str, fn.Relation]
    functions: dict[str, fn.Function]
    values: dict[str, Value]
    """Parameters of the text."""
    inputs: dict[str, Input]
    """What the functions and relations take."""
    columns: tuple[ir.OutputItem, ...]


@dataclass(frozen=True)
class Frame:
    """The rows so far: a relation and its variables, each with the table it points into."""

    name: str | None
    variables: dict[str, str] = field(default_factory=dict)


def build(plan: ir.ReadPlan, catalog: Catalog) -> SqlPlan:
    """The SQL of a read plan."""
    builder = _Builder(catalog)
    frame = builder.steps(Frame(None), plan.steps)
    tree = builder.output(frame, plan)
    for name, select in builder.ctes:
        tree = tree.with_(name, as_=select)
    return SqlPlan(tree, builder.relations, builder.functions, builder.values, builder.inputs, plan.output.items)


def column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(name, table=table, quoted=True)


def slot(variable: str, table: str | None = None) -> exp.Column:
    """The column of a variable: its name cannot be that of an output column."""
    return column(f"${variable}", table)


def _into(expression: Any, variable: str) -> Any:
    return expression.as_(f"${variable}", quoted=True)


class _Builder:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.ctes: list[tuple[str, exp.Select]] = []
        self.relations: dict[str, fn.Relation] = {}
        self.functions: dict[str, fn.Function] = {}
        self.values: dict[str, Value] = {}
        self.inputs: dict[str, Input] = {}
        self.fused: dict[ir.Rrf, str] = {}

    # Names

    def _name(self, known: dict[str, Named], meaning: Named, wish: str) -> str:
        for name, other in known.items():
            if other == meaning:
                return name
        base = re.sub(r"\W+", "_", wish.lower())
        taken = {*self.relations, *self.functions}
        name, number = base, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        known[name] = meaning
        return name

    def call(self, function: fn.Function, *arguments: exp.Expression) -> exp.Expression:
        """A call of a function that the engine provides."""
        return exp.Anonymous(this=self._name(self.functions, function, _wish(function)), expressions=list(arguments))

    def value(self, value: Value) -> exp.Expression:
        """A parameter for a value."""
        for name, other in self.values.items():
            if other == value:
                return exp.Parameter(this=exp.var(name))
        name = f"p{len(self.values) + 1}"
        self.values[name] = value
        return exp.Parameter(this=exp.var(name))

    def _cte(self, select: exp.Select) -> str:
        name = f"s{len(self.ctes) + 1}"
        self.ctes.append((name, select))
        return name

    # Steps

    def steps(self, frame: Frame, steps: Iterable[ir.Step]) -> Frame:
        for step in steps:
            match step:
                case ir.NodeScan():
                    frame = self._scan(frame, step)
                case ir.Expand():
                    frame = self._expand(frame, step)
                case ir.Filter():
                    compare = ir.Compare(step.left, step.op, step.right)
                    frame = self._where(frame, [self.compare(frame, compare)])
                case ir.AntiJoin():
                    frame = self._anti_join(frame, step)
        return frame

    def _scan(self, frame: Frame, scan: ir.NodeScan) -> Frame:
        relation = self._source(scan)
        source = exp.select(_into(column("v"), scan.variable)).from_(exp.to_table(relation, quoted=True))
        found = Frame(None, {scan.variable: f"node:{scan.type}"})
        if frame.name is None:
            found = replace(found, name=self._cte(source))
            return self._where(found, [self.compare(found, each) for each in scan.filters])
        inner = replace(found, name=self._cte(source))
        inner = self._where(inner, [self.compare(inner, each) for each in scan.filters])
        variables = frame.variables | found.variables
        names = [slot(name) for name in variables]
        assert inner.name is not None
        joined = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(inner.name), join_type="cross")
        return Frame(self._cte(joined), variables)

    def _source(self, scan: ir.NodeScan) -> str:
        """All nodes of the type, or those with a key that is given."""
        node = self.catalog.nodes[scan.type]
        given = {
            each.left.property: each.right
            for each in scan.filters
            if each.op == "=" and isinstance(each.left, ir.PropertyRef) and isinstance(each.right, ir.ParamRef | ir.Constant)
        }
        if node.key is None or not all(name in given for name in node.key):
            return self._name(self.relations, fn.Nodes(scan.type), f"nodes_{scan.type}")
        names = []
        for name in node.key:
            value = given[name]
            assert isinstance(value, ir.ParamRef | ir.Constant)
            names.append(self._input(value))
        return self._name(self.relations, fn.Lookup(scan.type, tuple(names)), f"find_{scan.type}")

    def _expand(self, frame: Frame, expand: ir.Expand) -> Frame:
        assert frame.name is not None
        kept = [slot(name) for name in frame.variables]
        variables = frame.variables | {expand.target: f"node:{expand.target_type}"}
        if expand.edge_variable is not None:
            call = self.call(fn.Hop(expand.edge, expand.direction, True), slot(expand.source))
            unnested = exp.select(*kept, exp.Unnest(expressions=[call]).as_("$$hop", quoted=True))
            inner = self._cte(unnested.from_(exp.to_table(frame.name)))
            fields = [
                _into(exp.Bracket(this=column("$$hop"), expressions=[exp.Literal.string(name)]), variable)
                for name, variable in (("d", expand.target), ("e", expand.edge_variable))
            ]
            select = exp.select(*(each.copy() for each in kept), *fields).from_(exp.to_table(inner))
            variables |= {expand.edge_variable: f"edge:{expand.edge}"}
        else:
            call = self.call(self._traversal(expand), slot(expand.source))
            unnested_target = _into(exp.Unnest(expressions=[call]), expand.target)
            select = exp.select(*kept, unnested_target).from_(exp.to_table(frame.name))
        found = Frame(self._cte(select), variables)
        return self._where(found, [self.compare(found, each) for each in expand.target_filters])

    def _traversal(self, expand: ir.Expand) -> fn.Function:
        if (expand.minimum, expand.maximum) == (1, 1):
            return fn.Hop(expand.edge, expand.direction, False)
        return fn.Reach(expand.edge, expand.direction, expand.minimum, expand.maximum, expand.reversed)

    def _where(self, frame: Frame, conditions: Sequence[exp.Expression]) -> Frame:
        if not conditions:
            return frame
        assert frame.name is not None
        names = [slot(name) for name in frame.variables]
        select = exp.select(*names).from_(exp.to_table(frame.name)).where(*conditions)
        return Frame(self._cte(select), frame.variables)

    def _anti_join(self, frame: Frame, anti: ir.AntiJoin) -> Frame:
        hop = _only_hop(anti)
        if hop is not None:
            has_any = self.call(fn.HasAny(hop.edge, hop.direction), slot(hop.source))
            return self._where(frame, [exp.Not(this=has_any)])
        outer = [name for name in anti.outer_variables if name in frame.variables]
        if not outer:
            return self._without_solutions(frame, anti)
        assert frame.name is not None
        seeds = exp.select(*(slot(name) for name in outer)).distinct().from_(exp.to_table(frame.name))
        body = self.steps(Frame(self._cte(seeds), {name: frame.variables[name] for name in outer}), anti.inner)
        assert body.name is not None
        found = self._cte(exp.select(*(slot(name) for name in outer)).distinct().from_(exp.to_table(body.name)))
        on = exp.and_(*(exp.EQ(this=slot(name, frame.name), expression=slot(name, found)) for name in outer))
        names = [_into(slot(name, frame.name), name) for name in frame.variables]
        select = exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(found), on=on, join_type="left anti")
        return Frame(self._cte(select), frame.variables)

    def _without_solutions(self, frame: Frame, anti: ir.AntiJoin) -> Frame:
        """A body that has nothing to do with the rows: all stay, or none."""
        body = self.steps(Frame(None), anti.inner)
        assert body.name is not None
        number = exp.Count(this=exp.Star()).as_("$$solutions", quoted=True)
        counted = self._cte(exp.select(number).from_(exp.to_table(body.name)))
        names = [slot(name) for name in frame.variables]
        assert frame.name is not None
        none = exp.EQ(this=column("$$solutions"), expression=exp.Literal.number(0))
        select = (
            exp.select(*names).from_(exp.to_table(frame.name)).join(exp.to_table(counted), join_type="cross").where(none)
        )
        return Frame(self._cte(select), frame.variables)

    # Expressions

    def compare(self, frame: Frame, compare: ir.Compare) -> exp.Expression:
        """A comparison that keeps a row iff it is true."""
        left, op, right = compare.left, compare.op, compare.right
        left_is_value, right_is_value = (isinstance(each, ir.ParamRef | ir.Constant) for each in (left, right))
        if left_is_value and right_is_value:
            return self.value(Decided(left, op, right))  # type: ignore[arg-type]
        if op == "contains":
            return self._contains(frame, left, right)
        if op in ("contains_text", "starts_with"):
            name = "contains" if op == "contains_text" else "starts_with"
            return exp.Anonymous(this=name, expressions=[self.operand(frame, left), self.operand(frame, right)])
        if isinstance(left, ir.IdRef) and isinstance(right, ir.IdRef):
            return _binary(op, slot(left.variable), slot(right.variable))
        if left_is_value:
            return self._against(frame, right, _MIRRORED[op], left)
        if right_is_value:
            return self._against(frame, left, op, right)
        kinds = (_scalar(left), _scalar(right))
        if {kind in INTEGERS for kind in kinds} == {True, False} and all(kind in NUMERIC for kind in kinds):
            exact = fn.Exact(op, _type(left), _type(right))
            return self.call(exact, self.operand(frame, left), self.operand(frame, right))
        return _binary(op, self.operand(frame, left), self.operand(frame, right))

    def _against(self, frame: Frame, left: ir.Expr, op: str, value: ir.Expr) -> exp.Expression:
        assert isinstance(value, ir.ParamRef | ir.Constant)
        if isinstance(left, ir.PropertyRef):
            bound = self.value(Compared(value, op, left.type))
        else:
            bound = self.value(Plain(value, value.type))
        return _binary(op, self.operand(frame, left), bound)

    def _contains(self, frame: Frame, left: ir.Expr, right: ir.Expr) -> exp.Expression:
        if isinstance(left, ir.ParamRef | ir.Constant):
            values = self.value(Listed(left, _type(right)))
            return exp.Anonymous(this="array_has", expressions=[values, self.operand(frame, right)])
        if isinstance(right, ir.ParamRef | ir.Constant):
            needle = self.value(Member(right, _type(left)))
        else:
            needle = self.operand(frame, right)
        return exp.Anonymous(this="array_has", expressions=[self.operand(frame, left), needle])

    def operand(self, frame: Frame, expr: ir.Expr) -> exp.Expression:
        """An expression to compare, sort or group by."""
        if isinstance(expr, ir.PropertyRef):
            comparable = expr.type.scalar in FLOATS and not expr.type.is_vector
            get = fn.Get(frame.variables[expr.variable], expr.property, expr.type, comparable)
            return self.call(get, slot(expr.variable))
        return self.expression(frame, expr)

    def expression(self, frame: Frame, expr: ir.Expr) -> exp.Expression:
        """An expression as a result shows it."""
        match expr:
            case ir.PropertyRef():
                get = fn.Get(frame.variables[expr.variable], expr.property, expr.type)
                return self.call(get, slot(expr.variable))
            case ir.IdRef():
                return self.call(fn.Get(frame.variables[expr.variable], "id", None), slot(expr.variable))
            case ir.ParamRef() | ir.Constant():
                return self.value(Plain(expr, expr.type))
            case ir.TextMatch():
                return self._text(frame, expr)
            case ir.Nearest():
                return self._distance(frame, expr)
            case ir.Bm25():
                return self._score(frame, expr)
            case ir.ColumnRef():
                return column(expr.name)
            case ir.Rrf():
                return column(self.fused[expr])
            case ir.AggregateCall():
                return self._aggregate(frame, expr)

    def _input(self, expr: ir.ParamRef | ir.Constant) -> str:
        """A value that a function or relation takes, by name."""
        for name, other in self.inputs.items():
            if other == expr:
                return name
        self.inputs[f"i{len(self.inputs) + 1}"] = expr
        return f"i{len(self.inputs)}"

    def _query(self, frame: Frame, query: ir.Expr) -> tuple[str | None, list[exp.Expression]]:
        """What a search looks for: one value for all rows, or an argument that each row brings."""
        if isinstance(query, ir.ParamRef | ir.Constant):
            return self._input(query), []
        return None, [self.expression(frame, query)]

    def _text(self, frame: Frame, match: ir.TextMatch) -> exp.Expression:
        field_ = match.field
        query, more = self._query(frame, match.query)
        edits = None
        if match.max_edits is not None:
            if not isinstance(match.max_edits, ir.ParamRef | ir.Constant):
                raise BadRequest(
                    "the distance of `fuzzy` is a number or a parameter", hint="it cannot differ from row to row"
                )
            edits = self._input(match.max_edits)
        text = fn.Text(match.function, frame.variables[field_.variable], field_.property, query, edits)
        return self.call(text, slot(field_.variable), *more)

    def _distance(self, frame: Frame, nearest: ir.Nearest) -> exp.Expression:
        field_ = nearest.field
        query, more = self._query(frame, nearest.query)
        distance = fn.Distance(frame.variables[field_.variable], field_.property, nearest.metric, query)
        return self.call(distance, slot(field_.variable), *more)

    def _score(self, frame: Frame, bm25: ir.Bm25) -> exp.Expression:
        field_ = bm25.field
        query, more = self._query(frame, bm25.query)
        score = fn.Bm25Score(frame.variables[field_.variable], field_.property, query)
        return self.call(score, slot(field_.variable), *more)

    def _aggregate(self, frame: Frame, call: ir.AggregateCall) -> exp.Expression:
        argument = call.argument
        if call.function == "count":
            counted = slot(argument.variable) if isinstance(argument, ir.IdRef) else self.operand(frame, argument)
            return exp.Count(this=counted)
        operand = self.operand(frame, argument)
        if call.function in ("sum", "avg"):
            operand = exp.cast(operand, _FLOAT64)
        kinds: dict[str, Any] = {"sum": exp.Sum, "avg": exp.Avg, "min": exp.Min, "max": exp.Max}
        aggregate: exp.Expression = kinds[call.function](this=operand)
        return aggregate

    # Output

    def output(self, frame: Frame, plan: ir.ReadPlan) -> exp.Select:
        if isinstance(plan.output, ir.Aggregate):
            return self._grouped(frame, plan.output, plan)
        rank = None if plan.order is None else plan.order.rank
        extra: list[str] = []
        order: list[exp.Expression] = []
        if isinstance(rank, ir.Rrf):
            frame = self._fused(frame, rank, plan)
            extra, order = ["$$place", self.fused[rank]], [_ordered(column("$$place"))]
        elif rank is not None:
            frame = self._ranked(frame, rank)
            extra, order = ["$$rank"], [_ordered(column("$$rank"), descending=isinstance(rank, ir.Bm25))]
        for item in plan.output.items:
            if isinstance(item.expr, ir.Rrf) and item.expr not in self.fused:
                frame = self._with_score(frame, extra, item.expr, plan)
                extra.append(self.fused[item.expr])
        order += self._order(frame, plan)
        if plan.limit is not None:
            frame = self._cut(frame, extra, order, plan.limit)
            order = []
        assert frame.name is not None
        items = [self.expression(frame, item.expr).as_(item.name, quoted=True) for item in plan.output.items]
        select = exp.select(*items).from_(exp.to_table(frame.name))
        return select.order_by(*order) if order else select

    def _cut(self, frame: Frame, extra: list[str], order: Sequence[exp.Expression], limit: ir.Limit) -> Frame:
        """The first rows, before anything else is fetched for them."""
        assert frame.name is not None
        names = [*(slot(name) for name in frame.variables), *(column(name) for name in extra)]
        select = exp.select(*names).from_(exp.to_table(frame.name))
        select = select.order_by(*order) if order else select
        return Frame(self._cte(select.limit(limit.count)), frame.variables)

    def _order(self, frame: Frame, plan: ir.ReadPlan) -> list[exp.Expression]:
        if plan.order is None:
            return []
        keys = [_ordered(self.sort_key(frame, key.expr), descending=key.direction == "desc") for key in plan.order.keys]
        return [*keys, *(_ordered(self.sort_key(frame, each)) for each in plan.order.tie_break)]

    def sort_key(self, frame: Frame, expr: ir.Expr) -> exp.Expression:
        if isinstance(expr, ir.IdRef):
            return self.call(fn.IdRank(frame.variables[expr.variable]), slot(expr.variable))
        return self.operand(frame, expr)

    def _ranked(self, frame: Frame, rank: ir.Nearest | ir.Bm25) -> Frame:
        assert frame.name is not None
        names = [slot(name) for name in frame.variables]
        score = self.expression(frame, rank).as_("$$rank", quoted=True)
        scored = self._cte(exp.select(*names, score).from_(exp.to_table(frame.name)))
        known: exp.Expression = exp.Not(this=exp.Is(this=column("$$rank"), expression=exp.Null()))
        if isinstance(rank, ir.Bm25):
            known = exp.GT(this=column("$$rank"), expression=exp.Literal.number(0))
        kept = exp.select(*(each.copy() for each in names), column("$$rank")).from_(exp.to_table(scored)).where(known)
        return Frame(self._cte(kept), frame.variables)

    def _grouped(self, frame: Frame, output: ir.Aggregate, plan: ir.ReadPlan) -> exp.Select:
        """Groups; ids are fetched when the groups are known, sorting is by what they are."""
        assert frame.name is not None
        items, keys, shown = [], [], []
        variables: dict[str, str] = {}
        for number, item in enumerate(output.items):
            name = f"${number}"
            if isinstance(item.expr, ir.AggregateCall):
                items.append(self._aggregate(frame, item.expr).as_(name, quoted=True))
                shown.append(column(name).as_(item.name, quoted=True))
                continue
            if isinstance(item.expr, ir.IdRef):
                variables[name] = frame.variables[item.expr.variable]
                key: exp.Expression = slot(item.expr.variable)
                shown_key = self.call(fn.Get(variables[name], "id", None), column(name))
            else:
                key, shown_key = self.operand(frame, item.expr), column(name)
            items.append(key.as_(name, quoted=True))
            keys.append(key.copy())
            shown.append(shown_key.as_(item.name, quoted=True))
        select = exp.select(*items).from_(exp.to_table(frame.name))
        varying = [key for key in keys if not isinstance(key, exp.Parameter)]
        if varying:
            select = select.group_by(*varying)
        elif keys:
            # One group at most, and none without rows.
            select = select.having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0)))
        grouped = self._cte(select)
        order = [] if plan.order is None else self._group_order(output, variables, plan.order)
        if plan.limit is not None:
            names = [column(f"${number}") for number in range(len(output.items))]
            cut = exp.select(*names).from_(exp.to_table(grouped))
            cut = (cut.order_by(*order) if order else cut).limit(plan.limit.count)
            return exp.select(*shown).from_(exp.to_table(self._cte(cut)))
        final = exp.select(*shown).from_(exp.to_table(grouped))
        return final.order_by(*order) if order else final

    def _group_order(self, output: ir.Aggregate, variables: dict[str, str], order: ir.Order) -> list[exp.Expression]:
        places = {item.name: f"${number}" for number, item in enumerate(output.items)}
        by_expr = {item.expr: f"${number}" for number, item in enumerate(output.items)}

        def key(expr: ir.Expr) -> exp.Expression:
            name = places[expr.name] if isinstance(expr, ir.ColumnRef) else by_expr[expr]
            return self.call(fn.IdRank(variables[name]), column(name)) if name in variables else column(name)

        keys = [_ordered(key(each.expr), descending=each.direction == "desc") for each in order.keys]
        return [*keys, *(_ordered(key(each)) for each in order.tie_break)]

    # Fusion

    def _fused(self, frame: Frame, rrf: ir.Rrf, plan: ir.ReadPlan) -> Frame:
        """The rows of the best entities by the sum of reciprocal ranks, with their place among them."""
        assert plan.limit is not None
        assert frame.name is not None
        scores = self._scores(frame, rrf, plan.limit.count)
        best = exp.LTE(this=column("f"), expression=exp.Literal.number(plan.limit.count))
        chosen = self._cte(exp.select(column("v"), column("s"), column("f")).from_(exp.to_table(scores)).where(best))
        variable = rrf.first.field.variable
        self.fused[rrf] = f"$$rrf{len(self.fused)}"
        names = [_into(slot(name, frame.name), name) for name in frame.variables]
        extra = [
            column("f", chosen).as_("$$place", quoted=True),
            column("s", chosen).as_(self.fused[rrf], quoted=True),
        ]
        on = exp.EQ(this=slot(variable, frame.name), expression=column("v", chosen))
        joined = exp.select(*names, *extra).from_(exp.to_table(frame.name)).join(exp.to_table(chosen), on=on)
        return Frame(self._cte(joined), frame.variables)

    def _with_score(self, frame: Frame, extra: Sequence[str], rrf: ir.Rrf, plan: ir.ReadPlan) -> Frame:
        """The rows with a fused score that does not rank them. Without a limit an arm lists everything it can rank."""
        assert frame.name is not None
        scores = self._scores(frame, rrf, None if plan.limit is None else plan.limit.count)
        variable = rrf.first.field.variable
        self.fused[rrf] = f"$$rrf{len(self.fused)}"
        names = [_into(slot(name, frame.name), name) for name in frame.variables]
        names += [column(name, frame.name).as_(name, quoted=True) for name in extra]
        score = exp.Coalesce(this=column("s", scores), expressions=[exp.cast(exp.Literal.number(0), _FLOAT64)])
        on = exp.EQ(this=slot(variable, frame.name), expression=column("v", scores))
        joined = exp.select(*names, score.as_(self.fused[rrf], quoted=True)).from_(exp.to_table(frame.name))
        return Frame(self._cte(joined.join(exp.to_table(scores), on=on, join_type="left")), frame.variables)

    def _scores(self, frame: Frame, rrf: ir.Rrf, limit: int | None) -> str:
        """Entities `v` that an arm lists, their sums `s` and places `f`."""
        assert frame.name is not None
        variable = rrf.first.field.variable
        one = Frame(None, {variable: frame.variables[variable]})
        candidates = self._cte(exp.select(slot(variable)).distinct().from_(exp.to_table(frame.name)))
        a, b = (self._arm(replace(one, name=candidates), arm, limit) for arm in (rrf.first, rrf.second))
        k = self.value(Positive(rrf.k, "k of rrf", 60))
        both = (
            exp.select(
                exp.Coalesce(this=column("v", a), expressions=[column("v", b)]).as_("v", quoted=True),
                exp.Add(this=_reciprocal(k, a), expression=_reciprocal(k, b)).as_("s", quoted=True),
                column("r", a).as_("r1", quoted=True),
                column("r", b).as_("r2", quoted=True),
            )
            .from_(exp.to_table(a))
            .join(exp.to_table(b), on=exp.EQ(this=column("v", a), expression=column("v", b)), join_type="full")
        )
        order = [_ordered(column("s"), descending=True), *(_ordered(column(name), last=True) for name in ("r1", "r2"))]
        place = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=order)).as_("f", quoted=True)
        return self._cte(exp.select(column("v"), column("s"), place).from_(exp.to_table(self._cte(both))))

    def _arm(self, frame: Frame, arm: ir.Nearest | ir.Bm25, limit: int | None) -> str:
        variable = arm.field.variable
        ranked = self._ranked(frame, arm)
        assert ranked.name is not None
        order = [
            _ordered(column("$$rank"), descending=isinstance(arm, ir.Bm25)),
            _ordered(self.call(fn.IdRank(frame.variables[variable]), slot(variable))),
        ]
        place = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=order)).as_("r", quoted=True)
        numbered = exp.select(slot(variable).as_("v", quoted=True), place).from_(exp.to_table(ranked.name))
        name = self._cte(numbered)
        if isinstance(arm, ir.Bm25) or limit is None:
            return name
        best = exp.LTE(this=column("r"), expression=exp.Literal.number(limit))
        return self._cte(exp.select(column("v"), column("r")).from_(exp.to_table(name)).where(best))


def _reciprocal(k: exp.Expression, arm: str) -> exp.Expression:
    """What the rank in an arm is worth; nothing where the arm does not list the entity."""
    share = exp.Div(
        this=exp.cast(exp.Literal.number(1), _FLOAT64),
        expression=exp.Paren(this=exp.Add(this=exp.cast(k.copy(), _FLOAT64), expression=column("r", arm))),
    )
    return exp.Coalesce(this=share, expressions=[exp.cast(exp.Literal.number(0), _FLOAT64)])


def _binary(op: str, left: exp.Expression, right: exp.Expression) -> exp.Expression:
    made: exp.Expression = _OPERATORS[op](this=left, expression=right)
    return made


def _only_hop(anti: ir.AntiJoin) -> ir.Expand | None:
    """The hop of a body that asks for nothing but a neighbour."""
    match anti.inner:
        case (ir.Expand(minimum=1, target_filters=()) as hop,) if hop.source in anti.outer_variables:
            return hop
    return None


def _ordered(key: exp.Expression, *, descending: bool = False, last: bool | None = None) -> exp.Ordered:
    """A sort key; null is the smallest value unless it is to come last."""
    nulls_first = not descending if last is None else not last
    return exp.Ordered(this=key, desc=descending, nulls_first=nulls_first)


def _type(expr: ir.Expr) -> PropType:
    assert isinstance(expr, ir.PropertyRef | ir.ParamRef | ir.Constant)
    return expr.type


def _scalar(expr: ir.Expr) -> str:
    return expr.type.scalar if isinstance(expr, ir.PropertyRef) else ""


def _wish(function: fn.Function) -> str:
    match function:
        case fn.Get():
            suffix = "_key" if function.comparable else ""
            return f"{function.table_key.partition(':')[2]}_{function.column}{suffix}"
        case fn.IdRank():
            return f"{function.table_key.partition(':')[2]}_rank"
        case fn.Hop():
            return f"{function.edge}_{function.direction}{'_edges' if function.with_edges else ''}"
        case fn.Reach():
            return f"{function.edge}_{function.direction}_{function.minimum}_{function.maximum}"
        case fn.HasAny():
            return f"has_{function.edge}_{function.direction}"
        case fn.Text():
            return f"{function.function}_{function.column}"
        case fn.Bm25Score():
            return f"bm25_{function.column}"
        case fn.Distance():
            return f"distance_{function.column}"
        case fn.Exact():
            return "exact_" + {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[function.op]
