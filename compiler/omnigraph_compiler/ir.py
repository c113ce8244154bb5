"""The query IR: the contract between the compiler and the engines.

A read is a pipeline over rows keyed by variable, followed by output stages. Types are resolved: an expression can be
evaluated without the schema. A hidden variable (an anonymous `$_`, or the far end of a traversal
whose two ends are both bound) is called `#1`, `#2`, …; a variable local to a `not` block whose name an enclosing block
also binds is called `name#1`. Such names cannot be written in a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from omnigraph_compiler.canonical import stable_hash, tagged
from omnigraph_compiler.types import PropType
from omnigraph_compiler.values import format_date, format_datetime

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "contains_text", "starts_with"]
"""`contains` is list membership and `contains_text` substring; in a query both are written `contains`."""
Direction = Literal["out", "in", "both"]
OPPOSITE: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
PlainValue: TypeAlias = str | int | float | bool

NOW = "__now"
"""The parameter that carries the instant of `now()`."""

MOST_ROWS = 2**63 - 1
"""A larger limit does not limit anything."""

# Expressions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PropertyRef:
    """`variable.property` of a node or edge variable."""

    variable: str
    property: str
    type: PropType


@dataclass(frozen=True, slots=True)
class IdRef:
    """The hidden id column of a node or edge variable."""

    variable: str


@dataclass(frozen=True, slots=True)
class ParamRef:
    name: str
    type: PropType


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. Dates are days, instants milliseconds since the epoch; lists and vectors are tuples."""

    value: PlainValue | tuple[PlainValue, ...]
    type: PropType

    def to_json(self) -> dict[str, Any]:
        value: Any = self.value
        shown = [self._show(element) for element in value] if isinstance(value, tuple) else self._show(value)
        return {"kind": "Constant", "value": shown, "type": self.type.display}

    def _show(self, value: Any) -> Any:
        if self.type.scalar == "Date":
            return format_date(value)
        return format_datetime(value) if self.type.scalar == "DateTime" else value


@dataclass(frozen=True, slots=True)
class TextMatch:
    """`search`, `match_text` or `fuzzy`; Boolean, never null."""

    function: str
    field: PropertyRef
    query: Expr
    max_edits: Expr | None = None


@dataclass(frozen=True, slots=True)
class Nearest:
    """Distance between a stored vector and a query vector (or a text embedded at run time)."""

    field: PropertyRef
    query: Expr
    metric: str


@dataclass(frozen=True, slots=True)
class Bm25:
    field: PropertyRef
    query: Expr


@dataclass(frozen=True, slots=True)
class Rrf:
    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Expr | None = None


@dataclass(frozen=True, slots=True)
class AggregateCall:
    function: str
    argument: Expr
    type: PropType


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """An output column, in the sort keys of a grouped query."""

    name: str


Expr: TypeAlias = PropertyRef | IdRef | ParamRef | Constant | TextMatch | Nearest | Bm25 | Rrf | AggregateCall | ColumnRef

# Pipeline --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compare:
    left: Expr
    op: Operator
    right: Expr


@dataclass(frozen=True, slots=True)
class NodeScan:
    """All entities of a type that pass the filters, joined with the rows so far as a cross product."""

    variable: str
    type: str
    filters: tuple[Compare, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand:
    """Follow an edge type from `source` to the new variable `target`.

    `reversed` is True if the source of the clause is `target`. Reach is defined from the source of the clause, which makes
    a difference for self-loops if `minimum` is above 1.
    """

    source: str
    target: str
    edge: str
    direction: Direction
    target_type: str
    minimum: int
    maximum: int
    target_filters: tuple[Compare, ...] = ()
    edge_variable: str | None = None
    reversed: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    left: Expr
    op: Operator
    right: Expr


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Drop the rows for which the inner pipeline, seeded with that row, has a solution."""

    outer_variables: tuple[str, ...]
    inner: tuple[Step, ...]


Step: TypeAlias = NodeScan | Expand | Filter | AntiJoin

# Output ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutputItem:
    name: str
    expr: Expr
    type: PropType


@dataclass(frozen=True, slots=True)
class Project:
    items: tuple[OutputItem, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Group by all items that are not aggregate calls; one row per group."""

    items: tuple[OutputItem, ...]


@dataclass(frozen=True, slots=True)
class OrderKey:
    expr: Expr
    direction: Literal["asc", "desc"]


@dataclass(frozen=True, slots=True)
class Order:
    """Sort by rank (best first, if there is one), then by the keys, then by the tie-break (ascending, nulls first)."""

    keys: tuple[OrderKey, ...]
    tie_break: tuple[Expr, ...]
    rank: Nearest | Bm25 | Rrf | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """`count` is a number or a parameter; `ReadPlan.bound` replaces the parameter by its value."""

    count: int | ParamRef

    @property
    def number(self) -> int:
        """The count, of a bound plan."""
        assert isinstance(self.count, int)
        return self.count


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The steps of the match, then the output. Rows are ordered before the projection, groups after the aggregation."""

    steps: tuple[Step, ...]
    output: Project | Aggregate
    order: Order | None = None
    limit: Limit | None = None

    def bound(self, params: Mapping[str, Any]) -> ReadPlan:
        """Return the plan with the value of its limit, if the limit is a parameter."""
        if self.limit is None or not isinstance(self.limit.count, ParamRef):
            return self
        return replace(self, limit=Limit(min(params[self.limit.count.name], MOST_ROWS)))

    def stages(self) -> tuple[Step | Project | Aggregate | Order | Limit, ...]:
        """Return steps and output stages in execution order."""
        ordered = (self.output, self.order) if isinstance(self.output, Aggregate) else (self.order, self.output)
        return (*self.steps, *(stage for stage in (*ordered, self.limit) if stage is not None))


# Mutations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assign:
    """A value for one property; on an edge insert also for `from` and `to`."""

    property: str
    value: Expr
    type: PropType


@dataclass(frozen=True, slots=True)
class Insert:
    type_kind: Literal["node", "edge"]
    type: str
    assignments: tuple[Assign, ...]


@dataclass(frozen=True, slots=True)
class Update:
    type: str
    assignments: tuple[Assign, ...]
    predicate: Compare


@dataclass(frozen=True, slots=True)
class Delete:
    type_kind: Literal["node", "edge"]
    type: str
    predicate: Compare


@dataclass(frozen=True, slots=True)
class WritePlan:
    statements: tuple[Insert | Update | Delete, ...]


Plan: TypeAlias = ReadPlan | WritePlan


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return the canonical JSON form of a plan."""
    if isinstance(plan, WritePlan):
        return {"kind": "mutation", "statements": tagged(plan.statements)}
    return {"kind": "read", "stages": tagged(plan.stages())}


def plan_hash(plan: Plan) -> str:
    return stable_hash(plan_json(plan))
