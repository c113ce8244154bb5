"""Limits that DataFusion pushes into scans of tables.

Lance then plans a limit of its own. DataFusion would spread the rows below it over threads, though a limit takes one stream.
"""

from __future__ import annotations

from datafusion import DataFrame, SessionContext

_SPREADING = "datafusion.optimizer.enable_round_robin_repartition"


def may_limit(text: str) -> bool:
    """True if a statement may have a limit."""
    return "limit" in text.lower()


def pushes_limit(frame: DataFrame) -> bool:
    """True if a scan of the plan has a limit."""
    try:
        return ", fetch=" in frame.optimized_logical_plan().display_indent()
    except Exception:  # the statement fails when it runs, with an error of its own
        return False


def spread_rows(context: SessionContext, *, on: bool) -> None:
    """Let a session spread the rows of a scan over threads, or not."""
    SessionContext.sql(context, f"SET {_SPREADING} = {str(on).lower()}")
