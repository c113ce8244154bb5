"""What an operation costs, in calls to the store, and the golden files that state it.

A call is named after the part of the store and what is done there: `tables.open`, `manifest.merge`, `objects.write`. Nearly
every one of them is a round trip on an object store. `tables.rows` counts rows that scans handed out. What Lance does within
a call is not seen here.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import omnigraph_sql as og
from tests.internals import store_of

GOLDEN = Path(__file__).with_name("golden")
WIDTH = 24
"""Of the names of calls; the same everywhere, so that a new call changes one line."""
Cost = Mapping[str, int]


def counted(graph: og.Graph) -> Counter[str]:
    """All calls of a graph since it was opened; the counters are there for tests."""
    return Counter(
        {f"{part}.{call}": count for part, calls in store_of(graph).calls.items() for call, count in calls.items()}
    )


def cost(graph: og.Graph, operation: Callable[..., object], *arguments: Any, **named: Any) -> Cost:
    """Calls that an operation with these arguments makes."""
    before = counted(graph)
    operation(*arguments, **named)
    after = counted(graph)
    after.subtract(before)
    return {call: count for call, count in sorted(after.items()) if count}


def table(cases: Mapping[str, Cost]) -> str:
    """One column per case, one line per call; a dot stands for none."""
    calls = sorted({call for case in cases.values() for call in case})
    lines = [" " * WIDTH + "".join(f"  {name}" for name in cases)]
    for call in calls:
        cells = (f"{case.get(call, '.'):>{len(name) + 2}}" for name, case in cases.items())
        lines.append(f"{call:<{WIDTH}}" + "".join(cells))
    return "\n".join(lines) + "\n"


def check(name: str, cases: Mapping[str, Cost], *, update: bool) -> None:
    """Compare with the golden file of a name, or rewrite it."""
    path = GOLDEN / f"{name}.txt"
    actual = table(cases)
    if update:
        path.write_text(actual, "utf-8")
    expected = path.read_text("utf-8") if path.exists() else ""
    assert actual == expected, f"the cost differs from {path.name}; if that is meant, run pytest tests/cost --update-cost"
