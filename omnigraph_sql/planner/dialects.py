"""SQL text of a plan, per engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field

from sqlglot import exp

from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.spark_types import spark_type
from omnigraph_sql.planner.values import Value, kind_of

_PREFIX = "og_"
"""The prefix of our functions for engines that might have functions of the same names."""

_MOST_ROWS = 2**31 - 17
"""Spark counts rows with 32 bits, and sorts no more than these at once."""


@dataclass(frozen=True)
class SqlStatement:
    """The text of a query, and the parameters in it."""

    sql: str
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class SqlStages:
    """A plan as text: the query, and before it those whose rows are tables for the ones after them, by name."""

    query: SqlStatement
    stages: tuple[tuple[str, SqlStatement], ...]


@dataclass(frozen=True)
class Dialect:
    """The form of SQL for an engine."""

    grammar: str
    """The dialect of sqlglot."""
    _: KW_ONLY
    folds_case: bool = False
    """True if names that differ only in case are the same to it."""
    prefix: str = ""
    """The prefix of the names of functions."""
    parameter: str = "$"
    """The first character of a parameter."""
    stage: str = "CREATE TABLE"
    """The statement that makes a table of the rows of a stage."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Its names of functions that it calls otherwise."""
    adapt: Callable[[exp.Expression, Mapping[str, Value]], None] = lambda _, __: None
    """Adapts a tree to the engine; takes the values of its parameters, too."""

    @property
    def is_another(self) -> bool:
        """True if the tree of a plan has to be rewritten before it is rendered."""
        return self.folds_case or bool(self.prefix or self.words)

    def function(self, name: str) -> str:
        """The name in the text of a function that a plan calls."""
        return f"{self.prefix}{name}"

    def made(self, name: str, query: SqlStatement) -> str:
        """The text that makes a table of a query."""
        return f"{self.stage} {name} AS {query.sql}"

    def statements(self, plan: SqlPlan, *, pretty: bool = False) -> SqlStages:
        """The text of a plan."""
        trees = [tree for _, tree in plan.stages] + [plan.tree]
        variables = _case_safe_names(trees) if self.folds_case else {}

        def adapted(tree: exp.Expression) -> exp.Expression:
            tree = tree.copy()
            for node in tree.find_all(exp.Identifier, exp.Anonymous):
                if isinstance(node, exp.Anonymous):
                    ours = node.this in plan.functions
                    node.set("this", self.function(node.this) if ours else self.words.get(node.this, node.this))
                elif node.this in variables:
                    node.set("this", variables[node.this])
            self.adapt(tree, plan.values)
            return tree

        def statement(tree: exp.Expression) -> SqlStatement:
            parameters = tuple(dict.fromkeys(str(parameter.name) for parameter in tree.find_all(exp.Parameter)))
            shown = adapted(tree) if self.is_another else tree
            # Names of functions keep their case.
            return SqlStatement(shown.sql(dialect=self.grammar, pretty=pretty, normalize_functions=False), parameters)

        return SqlStages(statement(plan.tree), tuple((name, statement(tree)) for name, tree in plan.stages))


def _case_safe_names(trees: Iterable[exp.Expression]) -> dict[str, str]:
    """New names for variables whose names differ only in case from those of variables before them."""
    taken: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for name in dict.fromkeys(_variables(trees)):
        if taken.setdefault(name.lower(), name) == name:
            continue
        number = 2
        while f"{name.lower()}~{number}" in taken:
            number += 1
        renamed[name] = f"{name}~{number}"
        taken[renamed[name].lower()] = name
    return renamed


def _variables(trees: Iterable[exp.Expression]) -> Iterator[str]:
    # Output columns go by position; one may have the name of another.
    for tree in trees:
        yield from (str(node.this) for node in tree.find_all(exp.Identifier) if str(node.this).startswith("$"))


def _for_spark(tree: exp.Expression, values: Mapping[str, Value]) -> None:
    for limit in tree.find_all(exp.Limit):
        if int(limit.expression.name) > _MOST_ROWS:
            limit.set("expression", exp.Literal.number(_MOST_ROWS))
    _cut_first(tree)
    for node in list(tree.find_all(exp.Parameter, exp.Unnest)):
        if isinstance(node, exp.Unnest):
            unfolded = exp.Anonymous(this="EXPLODE", expressions=node.expressions)
            node.replace(exp.alias_(unfolded, node.alias, quoted=True))
            continue
        # Spark takes the type of a parameter from its Python value, and null has none.
        kind, marker = kind_of(values[node.name]), exp.Placeholder(this=node.name)
        node.replace(marker if kind is None else exp.cast(marker, spark_type(kind), dialect="spark"))


def _cut_first(tree: exp.Expression) -> None:
    """Cut rows before anything is fetched for them.

    Spark takes a limit behind the functions of the select around it. There it is no longer one of sorted rows: of rows in
    several parts it would take some, not the first.
    """
    for cte in [node for node in tree.find_all(exp.CTE) if node.this.args.get("limit") is not None]:
        name = cte.alias
        rows = exp.select("*").from_(exp.to_table(f"{name}_cut")).hint("COALESCE(1)", dialect="spark")
        whole = exp.CTE(this=rows, alias=exp.TableAlias(this=exp.to_identifier(name)))
        cte.set("alias", exp.TableAlias(this=exp.to_identifier(f"{name}_cut")))
        beside = cte.parent
        assert beside is not None
        place = beside.expressions.index(cte) + 1
        beside.set("expressions", [*beside.expressions[:place], whole, *beside.expressions[place:]])


DIALECTS: Mapping[str, Dialect] = {
    # The grammar of DataFusion is close to that of Postgres.
    "datafusion": Dialect("postgres"),
    "duckdb": Dialect("duckdb", folds_case=True, prefix=_PREFIX, stage="CREATE TEMP TABLE"),
    "spark": Dialect(
        "spark",
        folds_case=True,
        prefix=_PREFIX,
        parameter=":",
        stage="CACHE TABLE",
        words={"array_has": "array_contains", "starts_with": "startswith"},
        adapt=_for_spark,
    ),
}
