"""What a plan says about its scans: how many rows of a foreign table it can use."""

from __future__ import annotations

from collections.abc import Iterator

from datafusion import LogicalPlan
from datafusion.expr import TableScan

from omnigraph_sql.engines.foreign.registry import ForeignTables


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
