"""Translation of the operators of a physical plan into the steps of an explanation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from omnigraph_sql.engines.datafusion.engine import DataFusionRun
from omnigraph_sql.explanation import Step, counted
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.values import python_value
from omnigraph_sql.runtime.request import ReadRequest
from omnigraph_sql.table_keys import TableKey

_PLUMBING = (
    "RepartitionExec",
    "CoalescePartitionsExec",
    "CoalesceBatchesExec",
    "SortPreservingMergeExec",
    "CooperativeExec",
)
_JOINS = {"LeftAnti": "anti-join", "RightAnti": "anti-join", "LeftSemi": "semi-join", "RightSemi": "semi-join"}
_PLACE = re.compile(r"@\d+")
_UNNESTED = re.compile(r"__unnest_placeholder\((.*?)\),depth=\d+\)")
_NUMBER = re.compile(r"row_number\(\) ORDER BY \[.*?\] \w+ BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
_RELATION = re.compile(r"\bs\d+\.(?=\$)")
"""Aliases of relations, which explanations leave out: the variables identify the columns."""
_SHARED = re.compile(r"__common_expr_\d+")
"""Common subexpressions; the step below shows what they are."""
_COLUMN = re.compile(r"\$(\d+)\b(\.\w+)?")
_SAME = re.compile(r"(\S+) as \1(?=,|$)")
_LONGEST = 160


@dataclass(frozen=True)
class PlanReader:
    """Translates one physical plan."""

    request: ReadRequest
    session: DataFusionRun

    def step(self, node: Any) -> Step:
        """Return the step of an operator, with those of its inputs."""
        text = node.display().strip()
        name, _, details = text.partition(": ")
        children = node.children()
        if name in _PLUMBING and len(children) == 1 and "fetch" not in details:
            return self.step(children[0])
        if name == "UnnestExec" and children[0].display().startswith("ProjectionExec"):
            return self._expand(node, children[0])
        if name == "ProjectionExec" and not self._functions_in(details):
            return self.step(children[0])
        inputs = tuple(self.step(child) for child in children)
        make = _MAKERS.get(name)
        step = Step(f"{name} {self._plain(details)}".strip(), inputs) if make is None else make(self, details, inputs)
        return _measured(step, node)

    def _functions_in(self, details: str) -> dict[str, fn.Function]:
        functions = self.session.planned.plan.functions
        called = _UNNESTED.sub("", details)  # an unnested column contains the name of the function below that made the list
        return {name: functions[name] for name in functions if re.search(rf"\b{name}\(", called)}

    def _plain(self, text: str) -> str:
        """Format an expression with the names of the query."""
        text = _SAME.sub(r"\1", _NUMBER.sub("place", _PLACE.sub("", _UNNESTED.sub("it", text))))
        for name, function in self.session.planned.plan.functions.items():
            if isinstance(function, fn.Get | fn.IdRank):
                column = "id" if isinstance(function, fn.IdRank) else function.column
                type_ = TableKey(function.table_key).name
                text = re.sub(rf"\b{name}\(([^()]*)\)", rf"\1.{column}", text).replace(f"v.{column}", f"{type_}.{column}")
            if isinstance(function, fn.Number):
                text = re.sub(rf"\b{name}\(([^()]*)\)", partial(_number_texts, function), text)
            if isinstance(function, fn.Holds):
                text = re.sub(rf"\b{name}\(([^()]*)\)", partial(self._conditions, function), text)
        text = _SHARED.sub("it", _RELATION.sub("", text))
        return _clipped(_COLUMN.sub(self._column, text))

    def _column(self, place: re.Match[str]) -> str:
        """Return the name of a result column."""
        columns, of = self.request.schema.names, place[2] or ""
        if int(place[1]) >= len(columns):
            return place[0]
        name = columns[int(place[1])]
        return name if name.endswith(of) else f"{name}{of}"

    def _conditions(self, holds: fn.Holds, call: re.Match[str]) -> str:
        of = TableKey(holds.table_key).name if call[1] == "v" else call[1]
        values = [python_value(condition.value, self.request.params) for condition in holds.conditions]
        return " AND ".join(
            f"{of}.{condition.property} {condition.op} {value}"
            for condition, value in zip(holds.conditions, values, strict=True)
        )

    def _expand(self, node: Any, below: Any) -> Step:
        """Merge the operators that make lists and unnest them into one step."""
        called = self._functions_in(below.display())
        hops = {name: call for name, call in called.items() if isinstance(call, fn.HopFunction | fn.Reach)}
        source = self.step(below.children()[0])
        if len(hops) != 1:
            return _measured(Step("unfold", (source,)), node)
        (name, hop), *_ = hops.items()
        size = self.request.snapshot.entry(f"edge:{hop.edge}").row_count
        notes = [f"edge:{hop.edge}, {counted(size)}"]
        notes += [self.session.binding.notes[name]] if name in self.session.binding.notes else []
        step = Step(f"expand: {hop}", (source,), tuple(notes), self._estimated_neighbours(hop, source.estimated))
        measured = _measured(step, node)
        lists = below.metrics()
        return measured if lists is None else _with_time(measured, _seconds(lists))

    def _estimated_neighbours(self, hop: fn.HopFunction | fn.Reach, rows: int | None) -> int | None:
        if rows is None:
            return None
        edge = self.request.catalog.edges[hop.edge]
        ends = [self.request.snapshot.entry(f"node:{name}").row_count for name in (edge.source, edge.target)]
        edges = self.request.snapshot.entry(f"edge:{hop.edge}").row_count
        start, end = (ends[1], ends[0]) if hop.direction == "in" else (ends[0], ends[1])
        degree = edges * (2 if hop.direction == "both" else 1) / max(start, 1)
        if isinstance(hop, fn.HopFunction):
            return -int(-rows * degree // 1)
        near = sum(degree**hops for hops in range(hop.minimum, min(hop.maximum, 32) + 1))
        return -int(-rows * min(end, near) // 1)

    def source(self, details: str, _: tuple[Step, ...]) -> Step:
        relations = self.session.planned.plan.relations
        sizes = re.search(r"partition_sizes=\[([0-9, ]+)\]", details)
        number = sum(map(int, sizes[1].split(","))) - 1 if sizes else len(relations) - 1
        if not 0 <= number < len(relations):
            return Step("rows in memory")
        name = list(relations)[number]
        relation = relations[name]
        table = relation.tables[0]
        word = "look up" if isinstance(relation, fn.Lookup) else "scan"
        note = f"{table}, {counted(self.request.snapshot.entry(table).row_count)}"
        return Step(f"{word}: {relation}", (), (note,), self.session.binding.relations[name].num_rows)

    def projection(self, details: str, inputs: tuple[Step, ...]) -> Step:
        called = self._functions_in(details)
        calls = ", ".join(dict.fromkeys(map(str, called.values())))
        return Step(f"read: {_clipped(calls)}", inputs, (), inputs[0].estimated)

    def filter(self, details: str, inputs: tuple[Step, ...]) -> Step:
        condition, _, _ = details.partition(", projection=")
        number = inputs[0].estimated
        return Step(f"filter: {self._plain(condition)}", inputs, (), None if number is None else -(-number // 5))

    def aggregate(self, details: str, inputs: tuple[Step, ...]) -> Step:
        match = re.search(r"mode=(\w+), gby=\[(.*?)\], aggr=\[(.*?)\]", details)
        if match is None:
            return Step(f"aggregate {self._plain(details)}", inputs)
        mode, keys, calls = match.groups()
        by = f" by {self._plain(keys)}" if keys else ""
        expected = 1 if not keys else None if inputs[0].estimated is None else -(-inputs[0].estimated // 10)
        if keys and not calls:
            return Step(f"distinct {self._plain(keys)}", inputs, (), expected)
        partial = " (each thread its share)" if mode.startswith("Partial") else ""
        return Step(f"aggregate{by}: {self._plain(calls)}{partial}", inputs, (), expected)

    def sort(self, details: str, inputs: tuple[Step, ...]) -> Step:
        fetch = re.search(r"TopK\(fetch=(\d+)\)", details)
        keys = re.search(r"expr=\[(.*?)\](?:,|$)", details)
        by = self._plain(keys[1]) if keys else ""
        number = inputs[0].estimated
        if fetch is None:
            return Step(f"order by {by}", inputs, (), number)
        most = int(fetch[1])
        return Step(f"order by {by}, first {most}", inputs, (), most if number is None else min(number, most))

    def limit(self, details: str, inputs: tuple[Step, ...]) -> Step:
        fetch = re.search(r"fetch=(\d+)", details)
        number = inputs[0].estimated
        most = int(fetch[1]) if fetch else None
        expected = number if most is None else most if number is None else min(number, most)
        return Step(f"limit {most}", inputs, (), expected)

    def join(self, details: str, inputs: tuple[Step, ...]) -> Step:
        kind = re.search(r"join_type=(\w+)", details)
        on = re.search(r"on=\[(.*?)\](?:,|$)", details)
        word = "join" if kind is None else _JOINS.get(kind[1], f"{kind[1].lower()} join")
        return Step(f"{word} on {self._plain(on[1])}" if on else word, inputs)

    def cross(self, _: str, inputs: tuple[Step, ...]) -> Step:
        numbers = [step.estimated for step in inputs]
        expected = None if None in numbers else _product([number or 0 for number in numbers])
        return Step("cross join", inputs, (), expected)

    def rank(self, details: str, inputs: tuple[Step, ...]) -> Step:
        order = re.search(r"ORDER BY \[(.*?)\]", details)
        return Step(f"rank by {self._plain(order[1])}" if order else "rank", inputs, (), inputs[0].estimated)

    def nothing(self, _: str, inputs: tuple[Step, ...]) -> Step:
        return Step("nothing", inputs, (), 0)


_MAKERS: dict[str, Callable[[PlanReader, str, tuple[Step, ...]], Step]] = {
    "DataSourceExec": PlanReader.source,
    "DatasetExec": PlanReader.source,
    "ProjectionExec": PlanReader.projection,
    "FilterExec": PlanReader.filter,
    "AggregateExec": PlanReader.aggregate,
    "SortExec": PlanReader.sort,
    "SortPreservingMergeExec": PlanReader.limit,
    "GlobalLimitExec": PlanReader.limit,
    "LocalLimitExec": PlanReader.limit,
    "CoalescePartitionsExec": PlanReader.limit,
    "HashJoinExec": PlanReader.join,
    "NestedLoopJoinExec": PlanReader.join,
    "SortMergeJoinExec": PlanReader.join,
    "CrossJoinExec": PlanReader.cross,
    "BoundedWindowAggExec": PlanReader.rank,
    "WindowAggExec": PlanReader.rank,
    "EmptyExec": PlanReader.nothing,
}


def _number_texts(number: fn.Number, call: re.Match[str]) -> str:
    return ", ".join(f"{of}.{column}" for of, (_, column) in zip(re.split(r",\s*", call[1]), number.places, strict=True))


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _product(numbers: list[int]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total


def _measured(step: Step, node: Any) -> Step:
    metrics = node.metrics()
    if metrics is None or metrics.output_rows is None:
        return step
    return replace(step, rows=int(metrics.output_rows), seconds=_seconds(metrics))


def _with_time(step: Step, seconds: float) -> Step:
    return step if step.seconds is None else replace(step, seconds=step.seconds + seconds)


def _seconds(metrics: Any) -> float:
    return (metrics.elapsed_compute or 0) / 1e9
