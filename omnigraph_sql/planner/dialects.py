"""SQL text of a tree, per engine."""

from __future__ import annotations

from sqlglot import exp


def render(tree: exp.Expression, *, pretty: bool = False) -> str:
    """The text for DataFusion: its grammar is close to that of Postgres, and names of functions keep their case."""
    return tree.sql(dialect=_DATAFUSION, pretty=pretty, normalize_functions=False)


_DATAFUSION = "postgres"
