"""The result of a script of SQL."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.result import Result


@dataclass(frozen=True)
class ExecuteResult:
    """What a script of SQL did."""

    rows_affected: int
    """Rows that were inserted, updated or deleted; of a merge those that were inserted or updated."""
    commit: Commit | None = None
    """The commit; None if nothing changed, or if a transaction will publish it."""
    result: Result | None = None
    """The rows of the last statement that gives rows; None if there is none."""
