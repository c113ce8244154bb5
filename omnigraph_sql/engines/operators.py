"""The operators of a physical plan, as steps for people."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from omnigraph_sql.engines.datafusion import Session
from omnigraph_sql.engines.orders import Order
from omnigraph_sql.explanation import Step, counted
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.values import python_value

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
_SAME = re.compile(r"(\S+) as \1(?=,|$)")
_LONGEST = 160


@dataclass(frozen=True)
class Reader:
    """Reads one physical plan."""

    order: Order
    session: Session

    def step(self, node: Any) -> Step:
        """The step of an operator, with those below it."""
        text = node.display().strip()
        name, _, details = text.partition(": ")
        children = node.children()
        if name in _PLUMBING and len(children) == 1 and "fetch" not in details:
            return self.step(children[0])
        if name == "UnnestExec" and children[0].display().startswith("ProjectionExec"):
            return self._expand(node, children[0])
        if name == "ProjectionExec" and not self._called(details):
            return self.step(children[0])
        inputs = tuple(self.step(child) for child in children)
        make = _MAKERS.get(name)
        step = Step(f"{name} {self._plain(details)}".strip(), inputs) if make is None else make(self, details, inputs)
        return _measured(step, node)

    def _called(self, details: str) -> dict[str, fn.Function]:
        functions = self.session.planned.plan.functions
        called = _UNNESTED.sub("", details)  # a list that was made below is named after the function that made it
        return {name: functions[name] for name in functions if re.search(rf"\b{name}\(", called)}

    def _plain(self, text: str) -> str:
        """An expression as people would write it."""
        text = _SAME.sub(r"\1", _NUMBER.sub("place", _PLACE.sub("", _UNNESTED.sub("it", text))))
        for name, function in self.session.planned.plan.functions.items():
            if isinstance(function, fn.Get | fn.IdRank):
                column = "id" if isinstance(function, fn.IdRank) else function.column
                type_ = function.table_key.partition(":")[2]
                text = re.sub(rf"\b{name}\(([^()]*)\)", rf"\1.{column}", text).replace(f"v.{column}", f"{type_}.{column}")
            if isinstance(function, fn.Number):
                text = re.sub(rf"\b{name}\(([^()]*)\)", partial(_texts, function), text)
            if isinstance(function, fn.Holds):
                text = re.sub(rf"\b{name}\(([^()]*)\)", partial(self._conditions, function), text)
        return _clipped(text)

    def _conditions(self, holds: fn.Holds, call: re.Match[str]) -> str:
        of = holds.table_key.partition(":")[2] if call[1] == "v" else call[1]
        values = [python_value(each.value, self.order.params) for each in holds.conditions]
        return " AND ".join(
            f"{of}.{each.property} {each.op} {value}" for each, value in zip(holds.conditions, values, strict=True)
        )

    def _expand(self, node: Any, below: Any) -> Step:
        """DataFusion makes lists first and unfolds them then; for people that is one step."""
        called = self._called(below.display())
        hops = {name: each for name, each in called.items() if isinstance(each, fn.Hop | fn.Reach)}
        source = self.step(below.children()[0])
        if len(hops) != 1:
            return _measured(Step("unfold", (source,)), node)
        (name, hop), *_ = hops.items()
        size = self.order.snapshot.entry(f"edge:{hop.edge}").row_count
        notes = [f"edge:{hop.edge}, {counted(size)}"]
        notes += [self.session.binding.notes[name]] if name in self.session.binding.notes else []
        step = Step(f"expand: {hop}", (source,), tuple(notes), self._reached(hop, source.estimated))
        measured = _measured(step, node)
        lists = below.metrics()
        return measured if lists is None else _with_time(measured, _seconds(lists))

    def _reached(self, hop: fn.Hop | fn.Reach, rows: int | None) -> int | None:
        if rows is None:
            return None
        edge = self.order.catalog.edges[hop.edge]
        ends = [self.order.snapshot.entry(f"node:{name}").row_count for name in (edge.source, edge.target)]
        edges = self.order.snapshot.entry(f"edge:{hop.edge}").row_count
        start, end = (ends[1], ends[0]) if hop.direction == "in" else (ends[0], ends[1])
        degree = edges * (2 if hop.direction == "both" else 1) / max(start, 1)
        if isinstance(hop, fn.Hop):
            return -int(-rows * degree // 1)
        near = sum(degree**hops for hops in range(hop.minimum, min(hop.maximum, 32) + 1))
        return -int(-rows * min(end, near) // 1)

    def source(self, details: str, _: tuple[Step, ...]) -> Step:
        relations = self.session.planned.plan.relations
        found = re.search(r"partition_sizes=\[([0-9, ]+)\]", details)
        number = sum(map(int, found[1].split(","))) - 1 if found else len(relations) - 1
        if not 0 <= number < len(relations):
            return Step("rows in memory")
        name = list(relations)[number]
        relation = relations[name]
        table = relation.tables[0]
        word = "look up" if isinstance(relation, fn.Lookup) else "scan"
        note = f"{table}, {counted(self.order.snapshot.entry(table).row_count)}"
        return Step(f"{word}: {relation}", (), (note,), self.session.binding.relations[name].num_rows)

    def projection(self, details: str, inputs: tuple[Step, ...]) -> Step:
        called = self._called(details)
        what = ", ".join(dict.fromkeys(str(each) for each in called.values()))
        return Step(f"read: {_clipped(what)}", inputs, (), inputs[0].estimated)

    def filter(self, details: str, inputs: tuple[Step, ...]) -> Step:
        condition, _, _ = details.partition(", projection=")
        number = inputs[0].estimated
        return Step(f"filter: {self._plain(condition)}", inputs, (), None if number is None else -(-number // 5))

    def aggregate(self, details: str, inputs: tuple[Step, ...]) -> Step:
        found = re.search(r"mode=(\w+), gby=\[(.*?)\], aggr=\[(.*?)\]", details)
        if found is None:
            return Step(f"aggregate {self._plain(details)}", inputs)
        mode, keys, calls = found.groups()
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
        known = None if None in numbers else _product([number or 0 for number in numbers])
        return Step("cross join", inputs, (), known)

    def rank(self, details: str, inputs: tuple[Step, ...]) -> Step:
        order = re.search(r"ORDER BY \[(.*?)\]", details)
        return Step(f"rank by {self._plain(order[1])}" if order else "rank", inputs, (), inputs[0].estimated)

    def nothing(self, _: str, inputs: tuple[Step, ...]) -> Step:
        return Step("nothing", inputs, (), 0)


_MAKERS: dict[str, Callable[[Reader, str, tuple[Step, ...]], Step]] = {
    "DataSourceExec": Reader.source,
    "DatasetExec": Reader.source,
    "ProjectionExec": Reader.projection,
    "FilterExec": Reader.filter,
    "AggregateExec": Reader.aggregate,
    "SortExec": Reader.sort,
    "SortPreservingMergeExec": Reader.limit,
    "GlobalLimitExec": Reader.limit,
    "LocalLimitExec": Reader.limit,
    "CoalescePartitionsExec": Reader.limit,
    "HashJoinExec": Reader.join,
    "NestedLoopJoinExec": Reader.join,
    "SortMergeJoinExec": Reader.join,
    "CrossJoinExec": Reader.cross,
    "BoundedWindowAggExec": Reader.rank,
    "WindowAggExec": Reader.rank,
    "EmptyExec": Reader.nothing,
}


def _texts(number: fn.Number, call: re.Match[str]) -> str:
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
