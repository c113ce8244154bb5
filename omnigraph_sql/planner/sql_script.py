"""The SQL of a query as a script for people, planned without a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.planner.build import build
from omnigraph_sql.planner.dialects import DIALECTS, Dialect
from omnigraph_sql.planner.logical import Direction
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.values import Compared, Decided, Input, Listed, Member, Plain, Positive, Value

_ROWS = 1000
_LIMIT = 10
"""Stands for a limit that is a parameter."""


class NoGraph:
    """Planner facts without a graph: every table has the same size, and no edge type is single-valued."""

    def rows(self, table_key: str) -> int:  # noqa: ARG002
        """The number of rows of a table."""
        return _ROWS

    def is_functional(self, edge: str, direction: Direction) -> bool:  # noqa: ARG002
        """True if every vertex is known to have one neighbour at most."""
        return False


def script(name: str, plan: ir.ReadPlan, catalog: Catalog, dialect: str) -> str:
    """The statements of a query for an engine, below comments that explain the names in them."""
    sql_plan, target = build(_with_number(plan), catalog, NoGraph()), DIALECTS[dialect]
    comments = [f"-- {line}" for line in (name, *legend(sql_plan, target), *_limit_note(plan))]
    return "\n".join((*comments, statements(sql_plan, target)))


def statements(plan: SqlPlan, dialect: Dialect) -> str:
    """The statements of a plan, pretty-printed: a stage or the query each."""
    text = dialect.statements(plan, pretty=True)
    stages = [dialect.made(table, query) for table, query in text.stages]
    return "\n\n".join(f"{sql};" for sql in (*stages, text.query.sql))


def legend(plan: SqlPlan, dialect: Dialect) -> Iterator[str]:
    """The meaning of each name in the SQL of a plan."""
    yield from _listed("relations", plan.relations.items())
    yield from _listed("functions", ((dialect.function(name), meaning) for name, meaning in plan.functions.items()))
    mark = dialect.parameter
    yield from _listed("parameters", ((f"{mark}{name}", _value_text(value)) for name, value in plan.values.items()))
    inputs = ((name, _input_text(value)) for name, value in plan.inputs.items())
    yield from _listed("inputs of relations and functions", inputs)


def _with_number(plan: ir.ReadPlan) -> ir.ReadPlan:
    """A plan whose limit is a number, as it is when it is planned for a run."""
    limit = plan.limit
    return plan.bound({limit.count.name: _LIMIT}) if limit and isinstance(limit.count, ir.ParamRef) else plan


def _limit_note(plan: ir.ReadPlan) -> Iterator[str]:
    if plan.limit is not None and isinstance(plan.limit.count, ir.ParamRef):
        yield f"limit: ${plan.limit.count.name} of the query, here {_LIMIT}: each number has a plan of its own"


def _listed(title: str, entries: Iterable[tuple[str, object]]) -> Iterator[str]:
    lines = [(name, _one_line(str(meaning))) for name, meaning in entries]
    width = max((len(name) for name, _ in lines), default=0)
    if lines:
        yield f"{title}:"
        yield from (f"  {name:<{width}}  {meaning}" for name, meaning in lines)


def _one_line(text: str) -> str:
    # The text of a comment must not end it.
    return " ".join(text.split())


def _value_text(value: Value) -> str:
    match value:
        case Plain():
            return _input_text(value.expr)
        case Compared():
            return f"{_input_text(value.expr)}, to compare {value.column} with ({value.op})"
        case Member():
            return f"{_input_text(value.expr)}, to look for in {value.column}"
        case Listed():
            return f"{_input_text(value.expr)}, to look for {value.column} in"
        case Positive():
            number = value.expr if isinstance(value.expr, ir.ParamRef | ir.Constant) else None
            return f"{value.what}: {value.default if number is None else _input_text(number)}"
        case Decided():
            return f"whether {_input_text(value.left)} {value.op} {_input_text(value.right)}"


def _input_text(value: Input) -> str:
    return f"${value.name} of the query" if isinstance(value, ir.ParamRef) else repr(value.value)
