"""From match rows to the result: ranking, order, projection, grouping and limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph_compiler.query import ast
from tests.property.oracle.expressions import Expressions, ranked_variable
from tests.property.oracle.matching import Row
from tests.property.oracle.ranking import Fusion
from tests.property.oracle.undecided import Unspecified
from tests.property.oracle.values import sort_key

Record = tuple[Any, ...]
Step = tuple[Callable[[Any], Any], bool]
"""What to sort by, and whether that is descending."""


@dataclass
class Output:
    """The `return`, `order` and `limit` of a query."""

    read: ast.Read
    expressions: Expressions
    variables: Sequence[str]
    """Named variables of the match."""

    @property
    def limit(self) -> int | None:
        count = None if self.read.limit is None else self.read.limit.count
        if count is None or isinstance(count, int):
            return count
        return int(self.expressions.params[count.name].data)

    @property
    def is_ordered(self) -> bool:
        return self.read.order is not None or self.limit is not None

    def make(self, rows: list[Row]) -> list[Record]:
        fusion = Fusion(self.expressions, rows, self.limit)
        self.expressions.fused = fusion.score
        items = [item.expr for item in self.read.returns.items]
        if any(isinstance(item, ast.Aggregate) for item in items):
            found = self._group(items, rows)
        else:
            ordered = self._order(rows, fusion) if self.is_ordered else rows
            found = [tuple(self.expressions.value(item, row).data for item in items) for row in ordered]
        return found if self.limit is None else found[: self.limit]

    # Order

    def _keys(self) -> list[tuple[ast.Expr, bool]]:
        """Sort keys with their direction; an alias stands for its item."""
        keys = self.read.order.keys if self.read.order else ()
        return [(self._item(key.expr), key.direction == "desc") for key in keys]

    def _item(self, expr: ast.Expr) -> ast.Expr:
        return self._item(self.expressions.aliases[expr.name]) if isinstance(expr, ast.Alias) else expr

    def _order(self, rows: list[Row], fusion: Fusion) -> list[Row]:
        keys = self._keys()
        steps: list[Step] = []
        for expr, descending in keys:
            if isinstance(expr, ast.Nearest | ast.Bm25 | ast.Rrf):
                rows, step = self._rank(expr, rows, fusion)
                steps.append((step, False))
            else:
                steps.append((self._by_value(expr), descending))
        steps += [(_by_id(name), False) for name in sorted(self.variables, key=str.encode)]
        return in_order(rows, steps)

    def _by_value(self, expr: ast.Expr) -> Callable[[Row], Any]:
        return lambda row: sort_key(self.expressions.value(expr, row).data)

    def _rank(self, expr: ast.Expr, rows: list[Row], fusion: Fusion) -> tuple[list[Row], Callable[[Row], Any]]:
        """The rows that have a rank, and what to sort them by."""
        if isinstance(expr, ast.Rrf):
            best = fusion.best_first(expr)[: self.limit]
            variable = ranked_variable(expr)
            return [row for row in rows if row[variable].id in best], lambda row: best.index(row[variable].id)
        scores = {id(row): self.expressions.value(expr, row).data for row in rows}
        if isinstance(expr, ast.Nearest):
            return [row for row in rows if scores[id(row)] is not None], lambda row: scores[id(row)]
        return [row for row in rows if scores[id(row)] > 0], lambda row: -scores[id(row)]

    # Groups

    def _group(self, items: list[ast.Expr], rows: list[Row]) -> list[Record]:
        grouping = [item for item in items if not isinstance(item, ast.Aggregate)]
        groups: dict[Record, list[Row]] = {} if grouping else {(): []}
        for row in rows:
            key = tuple(hashable(self.expressions.value(item, row).data) for item in grouping)
            groups.setdefault(key, []).append(row)
        records = []
        for members in groups.values():
            records.append(
                tuple(
                    self._aggregate(item, members)
                    if isinstance(item, ast.Aggregate)
                    else self.expressions.value(item, members[0]).data
                    for item in items
                )
            )
        return self._order_groups(items, records) if self.is_ordered else records

    def _order_groups(self, items: list[ast.Expr], records: list[Record]) -> list[Record]:
        places = [(self._place(items, expr), descending) for expr, descending in self._keys()]
        places += [(place, False) for place, item in enumerate(items) if not isinstance(item, ast.Aggregate)]
        for place in {place for place, _ in places}:
            if any(isinstance(record[place], list) for record in records):
                raise Unspecified("the order of lists")
        return in_order(records, [(by_place(place), descending) for place, descending in places])

    def _place(self, items: list[ast.Expr], key: ast.Expr) -> int:
        return next(place for place, item in enumerate(items) if item is key or _is_same_access(item, key))

    def _aggregate(self, expr: ast.Aggregate, rows: list[Row]) -> Any:
        return summary(expr.function, [self.expressions.value(expr.argument, row).data for row in rows])


def _is_same_access(a: ast.Expr, b: ast.Expr) -> bool:
    return (
        isinstance(a, ast.Access)
        and isinstance(b, ast.Access)
        and (a.variable.text, a.property.text) == (b.variable.text, b.property.text)
    )


def summary(function: str, values: list[Any]) -> Any:
    """The aggregate of the values of a group."""
    values = [value for value in values if value is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("sum", "avg"):
        return _total(values) if function == "sum" else _total(values) / len(values)
    return (min if function == "min" else max)(values, key=sort_key)


def _total(values: list[Any]) -> float:
    numbers = [float(value) for value in values]
    try:
        return math.fsum(numbers)
    except OverflowError:
        return sum(numbers)


def hashable(data: Any) -> Any:
    return tuple(data) if isinstance(data, list) else data


def _by_id(name: str) -> Callable[[Row], Any]:
    return lambda row: sort_key(row[name].id)


def by_place(place: int) -> Callable[[Record], Any]:
    return lambda record: sort_key(record[place])


def in_order(values: list[Any], steps: list[Step]) -> list[Any]:
    """Sorted by the first step, equal ones by the second, and so on."""
    for key, descending in reversed(steps):
        values = sorted(values, key=key, reverse=descending)
    return values
