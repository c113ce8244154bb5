"""What a plan says about its scans: how many rows of a foreign table it can use, and whether it can ask for them at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from datafusion import LogicalPlan
from datafusion.expr import TableScan

from omnigraph_sql.engines.foreign.registry import ForeignTables

_REFUTED = re.compile(r"filters=\[Boolean\(\w+\), ")


def is_refuted(plan: LogicalPlan) -> bool:
    """Whether a condition that no row satisfies is the first of several that a scan in an optimised plan is to apply.

    DataFusion cannot put these together for a dataset of Python. It is looked for in the text of the plan, which has scans
    inside of subqueries too; that a text in quotes may look like it does no harm.
    """
    return _REFUTED.search(plan.display_indent()) is not None


def scan_limits(plan: LogicalPlan, foreign: ForeignTables) -> dict[str, int]:
    """For tables of which every scan in an optimised plan has a limit: the largest, which is enough for each of them.

    The engine keeps its own limit above the scan, so more rows do no harm.
    """
    scans = list(_scans(plan))
    # Scans inside of subqueries that were left as they are cannot be looked at, only counted.
    if plan.display_indent().count("TableScan:") != len(scans):
        return {}
    found: dict[str, list[int | None]] = {}
    for scan in scans:
        table = foreign.get(scan.fqn()[-1])
        if table is not None:
            found.setdefault(table.name, []).append(scan.fetch())
    return {name: max(known) for name, limits in found.items() if len(known := _known(limits)) == len(limits)}


def _known(limits: list[int | None]) -> list[int]:
    return [limit for limit in limits if limit is not None]


def _scans(plan: LogicalPlan) -> Iterator[TableScan]:
    found = plan.to_variant()
    if isinstance(found, TableScan):
        yield found
    for child in plan.inputs():
        yield from _scans(child)
