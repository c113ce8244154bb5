"""An SQL plan, and the draft of one: its names, its common table expressions, and the rows so far."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from sqlglot import exp

from omnigraph_compiler import Catalog, ir
from omnigraph_compiler.deadline import check_deadline
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.logical import CountShortcut
from omnigraph_sql.planner.values import Input, Value

FLOAT64 = "DOUBLE"
Named = TypeVar("Named")
_ENGINE_FUNCTIONS = ("array_agg", "array_has", "contains", "row_number", "starts_with")
"""Functions of the engines themselves that plans call: a type and a property can add up to such a name."""


@dataclass(frozen=True, kw_only=True)
class SqlPlan:
    """A query as SQL, with the meaning of every name in it."""

    tree: exp.Select
    relations: dict[str, fn.Relation]
    functions: dict[str, fn.Function]
    values: dict[str, Value]
    """Parameters of the text."""
    inputs: dict[str, Input]
    """The values that functions and relations take."""
    columns: tuple[ir.OutputItem, ...]
    stages: tuple[tuple[str, exp.Select], ...] = ()
    """Queries whose rows are tables for the ones after them."""
    applied: tuple[str, ...] = ()
    """The notes of the rules that changed the query, for `explain`."""
    shortcut: CountShortcut | None = None
    """The shortcut that answers the query without running the SQL, if there is one."""

    @cached_property
    def is_straight(self) -> bool:
        """True if all rows come from one relation, and from the lists that they lead to."""
        return not self.stages and len(self.relations) == 1 and self.tree.find(exp.Join) is None


@dataclass(frozen=True)
class Frame:
    """The rows so far: a relation and its variables, each with the table it points into."""

    name: str | None
    variables: dict[str, str] = field(default_factory=dict)


def column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(name, table=table, quoted=True)


def slot(variable: str, table: str | None = None) -> exp.Column:
    """The column of a variable: its name cannot be that of an output column."""
    return column(f"${variable}", table)


def into(expression: Any, variable: str) -> Any:
    """An expression as the column of a variable."""
    return expression.as_(f"${variable}", quoted=True)


def ordered(key: exp.Expression, *, descending: bool = False, last: bool | None = None) -> exp.Ordered:
    """A sort key; null is the smallest value unless it is to come last."""
    nulls_first = not descending if last is None else not last
    return exp.Ordered(this=key, desc=descending, nulls_first=nulls_first)


class Draft:
    """The names of one plan and their meanings; every meaning has one name."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.ctes: list[tuple[str, exp.Select]] = []
        self.relations: dict[str, fn.Relation] = {}
        self.functions: dict[str, fn.Function] = {}
        self.values: dict[str, Value] = {}
        self.inputs: dict[str, Input] = {}
        self.fused: dict[ir.Rrf, str] = {}
        self.stages: list[tuple[str, exp.Select]] = []

    def _name(self, meanings: dict[str, Named], meaning: Named, wish: str) -> str:
        for name, other in meanings.items():
            if other == meaning:
                return name
        base = re.sub(r"\W+", "_", wish.lower())
        taken = {*self.relations, *self.functions, *_ENGINE_FUNCTIONS}
        name, number = base, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        meanings[name] = meaning
        return name

    def relation(self, relation: fn.Relation) -> exp.Table:
        """A relation that the engine provides."""
        return exp.to_table(self._name(self.relations, relation, relation.wish), quoted=True)

    def call(self, function: fn.Function, *arguments: exp.Expression) -> exp.Expression:
        """A call of a function that the engine provides."""
        return exp.Anonymous(this=self._name(self.functions, function, function.wish), expressions=list(arguments))

    def value(self, value: Value) -> exp.Expression:
        """A parameter for a value."""
        for name, other in self.values.items():
            if other == value:
                return exp.Parameter(this=exp.var(name))
        name = f"p{len(self.values) + 1}"
        self.values[name] = value
        return exp.Parameter(this=exp.var(name))

    def cte(self, select: exp.Select) -> str:
        """The name of a common table expression."""
        check_deadline()
        name = f"s{len(self.ctes) + 1}"
        self.ctes.append((name, select))
        return name

    def stored(self, frame: Frame) -> Frame:
        """The same rows as a table, which a stage before the query fills."""
        assert frame.name is not None
        select = exp.select(*(slot(name) for name in frame.variables)).from_(exp.to_table(frame.name))
        name = f"m{len(self.stages) + 1}"
        self.stages.append((name, self.whole(select)))
        return Frame(name, frame.variables)

    def whole(self, select: exp.Select) -> exp.Select:
        """A query with the common table expressions that it needs: an engine also plans those that are not used."""
        made, waiting = dict(self.ctes), [select]
        needed: set[str] = set()
        while waiting:
            names = {table.name for table in waiting.pop().find_all(exp.Table)} & made.keys() - needed
            needed |= names
            waiting += [made[name] for name in names]
        # Copied once: by default each of these calls copies the whole query, which takes minutes for a hundred clauses.
        query = select.copy()
        for name, cte in self.ctes:
            if name in needed:
                query.with_(name, as_=cte.copy(), copy=False)
        return query

    def input(self, expr: ir.ParamRef | ir.Constant) -> str:
        """A value that a function or relation takes, by name."""
        for name, other in self.inputs.items():
            if other == expr:
                return name
        self.inputs[f"i{len(self.inputs) + 1}"] = expr
        return f"i{len(self.inputs)}"
