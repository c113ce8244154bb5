"""Runs the compiler's plans step by step on the oracle's graph.

It reads nothing but the plan, as an engine does, so what it answers tells whether plans mean what queries mean. Values,
comparisons and text are those of the oracle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from omnigraph_compiler import ir
from omnigraph_compiler.types import BOOL, F64, STRING
from omnigraph_sql.errors import BadRequest, Configuration
from tests.property.oracle import text
from tests.property.oracle.answers import Answer
from tests.property.oracle.evaluate import BUDGET, accepted, plain
from tests.property.oracle.expressions import distance
from tests.property.oracle.graph import Entity, OracleGraph
from tests.property.oracle.output import Record, Step, by_place, hashable, in_order, summary
from tests.property.oracle.reach import neighbours, reach
from tests.property.oracle.undecided import TooLarge, Unspecified
from tests.property.oracle.values import Value, f32, holds, sort_key

Row = dict[str, Entity]
_OPPOSITE = {"out": "in", "in": "out", "both": "both"}


def run_plan(
    graph: OracleGraph,
    source: str,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    budget: int = BUDGET,
) -> Answer:
    """Compile a read query of a `.gq` text and run its plan."""
    query, bound = accepted(graph, source, name, params)
    assert isinstance(query.plan, ir.ReadPlan)
    values = {key: plain(value) for key, value in bound.items()}
    values[ir.NOW] = int(time.time() * 1000)
    plan = query.plan.bound(bound)
    runner = PlanRunner(graph, values, plan.limit, budget)
    _check_inputs(runner, plan)
    return Answer(query.columns, runner.run(plan), plan.order is not None)


@dataclass
class PlanRunner:
    graph: OracleGraph
    params: Mapping[str, Any]
    limit: ir.Limit | None
    budget: int

    def run(self, plan: ir.ReadPlan) -> list[Record]:
        rows = list(self.solve(plan.steps, {}))
        items = plan.output.items
        if isinstance(plan.output, ir.Aggregate):
            records = self._group(items, rows)
            if plan.order is not None:
                records = self._order_groups(plan.order, [item.name for item in items], records)
        else:
            ordered = rows if plan.order is None else self._order(plan.order, rows)
            records = [tuple(self._output(item.expr, row, rows) for item in items) for row in ordered]
        return records if plan.limit is None else records[: plan.limit.number]

    # Steps

    def solve(self, steps: tuple[ir.Step, ...], row: Row) -> Iterator[Row]:
        self.budget -= 1
        if self.budget < 0:
            raise TooLarge
        if not steps:
            yield row
            return
        step, rest = steps[0], steps[1:]
        for following in self._take(step, row):
            yield from self.solve(rest, following)

    def _take(self, step: ir.Step, row: Row) -> Iterable[Row]:
        match step:
            case ir.NodeScan():
                return self._scan(step, row)
            case ir.Expand():
                return self._expand(step, row)
            case ir.Filter():
                return [row] if self._holds(ir.Compare(step.left, step.op, step.right), row) else []
            case ir.AntiJoin():
                seed = {name: row[name] for name in step.outer_variables}
                return [] if any(True for _ in self.solve(step.inner, seed)) else [row]

    def _scan(self, step: ir.NodeScan, row: Row) -> Iterator[Row]:
        for entity in self.graph.nodes.get(step.type, ()):
            if all(self._holds(each, {**row, step.variable: entity}) for each in step.filters):
                yield {**row, step.variable: entity}

    def _expand(self, step: ir.Expand, row: Row) -> Iterator[Row]:
        for entity in self.graph.nodes.get(step.target_type, ()):
            following = {**row, step.target: entity}
            if not all(self._holds(each, following) for each in step.target_filters):
                continue
            ends = row[step.source].id, entity.id
            if step.edge_variable is not None:
                for edge in self.graph.edges.get(step.edge, ()):
                    forward, backward = (edge.source, edge.target) == ends, (edge.target, edge.source) == ends
                    if (forward and step.direction != "in") or (backward and step.direction != "out"):
                        yield {**following, step.edge_variable: edge}
            elif self._reaches(step, *ends):
                yield following

    def _reaches(self, step: ir.Expand, source: str, target: str) -> bool:
        """Whether the traversal leads there, seen from the clause's own source."""
        edges = self.graph.edges.get(step.edge, ())
        direction: str = step.direction
        if step.reversed:
            source, target, direction = target, source, _OPPOSITE[step.direction]
        type_ = self.graph.catalog.edges[step.edge]
        if type_.source != type_.target:
            return step.minimum <= 1 <= step.maximum and target in neighbours(edges, direction, source)
        return target in reach(edges, direction, source, step.minimum, step.maximum)

    def _holds(self, compare: ir.Compare, row: Row) -> bool:
        left, right = self.value(compare.left, row), self.value(compare.right, row)
        assert compare.op != "contains" or left.type.is_list
        assert compare.op != "contains_text" or left.type.is_string
        return holds(left, "contains" if compare.op == "contains_text" else compare.op, right)

    # Values

    def value(self, expr: ir.Expr, row: Row) -> Value:
        match expr:
            case ir.PropertyRef():
                return Value(row[expr.variable].values[expr.property], expr.type, "stored")
            case ir.IdRef():
                return Value(row[expr.variable].id, STRING)
            case ir.ParamRef():
                return Value(self.params[expr.name], expr.type, "given")
            case ir.Constant():
                return Value(list(expr.value) if isinstance(expr.value, tuple) else expr.value, expr.type, "given")
            case ir.TextMatch():
                return Value(self._matches_text(expr, row), BOOL)
            case ir.Nearest():
                query = self.value(expr.query, row)
                if query.type.is_string:
                    raise Unspecified("the vector of a text that is null")
                vector = None if query.data is None else [f32(each) for each in query.data]
                return Value(distance(expr.metric, self.value(expr.field, row).data, vector), F64)
            case ir.Bm25():
                entity = row[expr.field.variable]
                texts = [each.values[expr.field.property] for each in self.graph.nodes[entity.type.name]]
                query = self.value(expr.query, row)
                return Value(text.bm25(entity.values[expr.field.property], query.data, texts), F64)
            case _:
                raise AssertionError(f"no value of a row: {expr}")

    def _matches_text(self, expr: ir.TextMatch, row: Row) -> bool:
        own, query = self.value(expr.field, row).data, self.value(expr.query, row).data
        if expr.function != "fuzzy":
            return text.search(own, query)
        most = 2 if expr.max_edits is None else self.value(expr.max_edits, row).data
        if most is None or most < 0:
            raise Unspecified("how many edits a row allows")
        return text.fuzzy(own, query, most)

    # Output

    def _output(self, expr: ir.Expr, row: Row, rows: list[Row]) -> Any:
        if isinstance(expr, ir.Rrf):
            return self._fused(expr, rows).get(row[expr.first.field.variable].id, (0.0,))[0]
        return self.value(expr, row).data

    def _fused(self, expr: ir.Rrf, rows: list[Row]) -> dict[str, tuple[float, int, int]]:
        """The score and both ranks of every entity that an arm lists."""
        variable = expr.first.field.variable
        k = 60 if expr.k is None else self.value(expr.k, {}).data
        arms = [self._list(arm, variable, rows) for arm in (expr.first, expr.second)]
        absent = len(rows) + 1
        found = {}
        for key in {*arms[0], *arms[1]}:
            ranks = [arm.index(key) + 1 if key in arm else absent for arm in arms]
            score = sum(1 / (k + rank) for rank in ranks if rank != absent)
            found[key] = (score, ranks[0], ranks[1])
        return found

    def _list(self, arm: ir.Nearest | ir.Bm25, variable: str, rows: list[Row]) -> list[str]:
        scores: dict[str, Any] = {}
        for row in rows:
            score = self.value(arm, row).data
            if scores.setdefault(row[variable].id, score) != score:
                raise Unspecified("the place of an entity whose rows have different scores")
        if isinstance(arm, ir.Bm25):
            return sorted((key for key in scores if scores[key]), key=lambda key: (-scores[key], key))
        if self.limit is None:
            raise Unspecified("how many entities `nearest` lists without a limit")
        near = sorted((key for key in scores if scores[key] is not None), key=lambda key: (scores[key], key))
        return near[: self.limit.number]

    def _order(self, order: ir.Order, rows: list[Row]) -> list[Row]:
        steps: list[Step] = []
        match order.rank:
            case ir.Nearest() as rank:
                rows = [row for row in rows if self.value(rank, row).data is not None]
                steps.append((lambda row: self.value(rank, row).data, False))
            case ir.Bm25() as rank:
                rows = [row for row in rows if self.value(rank, row).data > 0]
                steps.append((lambda row: -self.value(rank, row).data, False))
            case ir.Rrf() as rank:
                variable, fused = rank.first.field.variable, self._fused(rank, rows)
                best = sorted(fused, key=lambda key: (-fused[key][0], *fused[key][1:]))
                best = best[: self.limit.number if self.limit else None]
                rows = [row for row in rows if row[variable].id in best]
                steps.append((lambda row: best.index(row[variable].id), False))
        for key in (*order.keys, *(ir.OrderKey(tie, "asc") for tie in order.tie_break)):
            steps.append((self._by(key.expr), key.direction == "desc"))
        return in_order(rows, steps)

    def _by(self, expr: ir.Expr) -> Callable[[Row], Any]:
        return lambda row: sort_key(self.value(expr, row).data)

    def _group(self, items: tuple[ir.OutputItem, ...], rows: list[Row]) -> list[Record]:
        grouping = [item.expr for item in items if not isinstance(item.expr, ir.AggregateCall)]
        groups: dict[Record, list[Row]] = {} if grouping else {(): []}
        for row in rows:
            groups.setdefault(tuple(hashable(self.value(expr, row).data) for expr in grouping), []).append(row)
        return [
            tuple(
                summary(item.expr.function, [self._output(item.expr.argument, row, rows) for row in members])
                if isinstance(item.expr, ir.AggregateCall)
                else self.value(item.expr, members[0]).data
                for item in items
            )
            for members in groups.values()
        ]

    def _order_groups(self, order: ir.Order, names: list[str], records: list[Record]) -> list[Record]:
        steps: list[Step] = []
        for key in (*order.keys, *(ir.OrderKey(tie, "asc") for tie in order.tie_break)):
            assert isinstance(key.expr, ir.ColumnRef)
            place = names.index(key.expr.name)
            if any(isinstance(record[place], list) for record in records):
                raise Unspecified("the order of lists")
            steps.append((by_place(place), key.direction == "desc"))
        return in_order(records, steps)


# Inputs that only an execution can refuse ------------------------------------------------------------------------


def _check_inputs(runner: PlanRunner, plan: ir.ReadPlan) -> None:
    for expr in _expressions(plan):
        if isinstance(expr, ir.TextMatch) and expr.max_edits is not None:
            _check_number(runner, expr.max_edits, 0)
        elif isinstance(expr, ir.Rrf) and expr.k is not None:
            if isinstance(expr.k, ir.PropertyRef):
                raise Unspecified("a fusion whose k depends on the row")
            _check_number(runner, expr.k, 1)
        elif isinstance(expr, ir.Nearest) and _is_text(expr.query):
            raise Configuration("no embedding provider is configured", what="embeddings")


def _is_text(expr: ir.Expr) -> bool:
    return isinstance(expr, ir.PropertyRef | ir.ParamRef | ir.Constant) and expr.type.is_string


def _check_number(runner: PlanRunner, expr: ir.Expr, least: int) -> None:
    if isinstance(expr, ir.ParamRef | ir.Constant):
        number = runner.value(expr, {}).data
        if number is None:
            raise Unspecified("an argument that is null")
        if number < least:
            raise BadRequest(f"the argument must be at least {least}, found {number}")


def _expressions(part: Any) -> Iterator[Any]:
    """Every expression of a plan."""
    if isinstance(part, tuple):
        for each in part:
            yield from _expressions(each)
    elif is_dataclass(part):
        yield part
        for field in fields(part):
            yield from _expressions(getattr(part, field.name))
