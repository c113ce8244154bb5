"""The nodes of comparison operators in trees of SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

COMPARISON_NODES: Mapping[str, Any] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
"""By `omnigraph_sql.comparison.ComparisonOperator`."""
