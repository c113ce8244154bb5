"""The SQL of a query as a text for people, made without a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.planner.build import build
from omnigraph_sql.planner.dialects import DIALECTS, Dialect
from omnigraph_sql.planner.logical import Direction
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.values import Compared, Decided, Input, Listed, Member, Plain, Positive, Value

_ROWS = 1000


class NoGraph:
    """What the planner is told where there is no graph: tables of one size, of whose edges nothing is known."""

    def rows(self, table_key: str) -> int:  # noqa: ARG002
        """How many rows a table has."""
        return _ROWS

    def is_functional(self, edge: str, direction: Direction) -> bool:  # noqa: ARG002
        """Whether every vertex is known to have one neighbour at most."""
        return False


def script(name: str, plan: ir.ReadPlan, catalog: Catalog, dialect: str) -> str:
    """The statements of a query in the words of an engine, and what the names in them mean."""
    found, chosen = build(plan, catalog, NoGraph()), DIALECTS[dialect]
    text = chosen.statements(found, pretty=True)
    made = [chosen.made(table, query) for table, query in text.stages]
    statements = "\n\n".join(f"{sql};" for sql in (*made, text.query.sql))
    return "\n".join((*_comments(name, found, chosen), statements))


def _comments(name: str, plan: SqlPlan, dialect: Dialect) -> Iterator[str]:
    yield f"-- {name}"
    yield from _listed("relations", plan.relations.items())
    yield from _listed("functions", ((dialect.function(each), meaning) for each, meaning in plan.functions.items()))
    mark = dialect.parameter
    yield from _listed("parameters", ((f"{mark}{each}", _value(value)) for each, value in plan.values.items()))
    yield from _listed("given to relations and functions", ((each, _given(value)) for each, value in plan.inputs.items()))


def _listed(title: str, entries: Iterable[tuple[str, object]]) -> Iterator[str]:
    lines = [(name, _one_line(str(meaning))) for name, meaning in entries]
    width = max((len(name) for name, _ in lines), default=0)
    if lines:
        yield f"-- {title}:"
        yield from (f"--   {name:<{width}}  {meaning}" for name, meaning in lines)


def _one_line(text: str) -> str:
    # What stands in a comment must not be able to end it.
    return " ".join(text.split())


def _value(value: Value) -> str:
    match value:
        case Plain():
            return _given(value.expr)
        case Compared():
            return f"{_given(value.expr)}, to compare {value.column} with ({value.op})"
        case Member():
            return f"{_given(value.expr)}, to look for in {value.column}"
        case Listed():
            return f"{_given(value.expr)}, to look for {value.column} in"
        case Positive():
            asked = value.expr if isinstance(value.expr, ir.ParamRef | ir.Constant) else None
            return f"{value.what}: {value.default if asked is None else _given(asked)}"
        case Decided():
            return f"whether {_given(value.left)} {value.op} {_given(value.right)}"


def _given(value: Input) -> str:
    return f"${value.name} of the query" if isinstance(value, ir.ParamRef) else repr(value.value)
