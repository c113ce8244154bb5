"""The speed of queries, compared with other engines on the same data. `python -m bench.queries NAME…` runs a few."""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bench import plots
from bench.contest import Result, compete, outcome_text
from bench.measure import Sample, markdown
from bench.peers import OURS, SYSTEMS
from bench.social import Size, default_directory
from bench.workers import MEMORY, GaveUp, Place, Worker
from bench.workloads import Workload, further, nine

INTRO = (
    "Read queries on a social network. Each system has a process of its own and its own copy of the data, except that "
    "DataFusion reads the Lance tables of our graph, ids as texts; runs of the systems alternate, after a warm-up. All "
    "answers are compared. Times are medians with their quartiles, in milliseconds; the ratio is our median by the "
    "best peer's, with the range that the quartiles of both allow."
)
PACKAGES = tuple(package for system in SYSTEMS.values() for package in system.packages)
REPORTS = Path(__file__).parent / "reports"
FIRST_QUERY = 200.0
"""The target for opening and the first query, in milliseconds above a warm query."""
LIMIT = 60.0
"""The default time limit of an answer in seconds."""
RESIDENT = 4_000_000_000
_PROCESSES = 5


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    workloads: tuple[Workload, ...]


GROUPS = (
    Group("nine", "The nine usual questions", nine.ALL),
    Group("reach", "Reachability", further.REACH),
    Group("patterns", "Triangles and negation", (further.TRIANGLES, *further.WITHOUT)),
    Group("edges", "Properties of edges", further.EDGE_PROPERTIES),
    Group("keys", "Look-ups by key", further.BY_KEY),
)
FIRST = (further.ONE_HOP, nine.AGE_BY_CITY, nine.TWO_HOPS_FILTERED)
GROWING = (
    further.POINT,
    further.ONE_HOP,
    nine.MEN_IN_CITY,
    nine.AGE_BY_CITY,
    nine.MOST_FOLLOWED,
    nine.TWO_HOPS_FILTERED,
    further.REACH[0],
    further.RECENT,
)
GROWING_FOLLOWS = 10


def run(options: argparse.Namespace) -> str:
    """Return all tables of the report, and write its plots beside it."""
    _require_packages()
    size = Size(int(100_000 * options.scale))
    place = _prepared(Place(size, options.data or default_directory(), options.limit))
    sections = [_group(group, place) for group in GROUPS]
    sections.append(("Open and first query", _first_table(place)))
    sizes = [10_000, 100_000, *([1_000_000] if options.million else [])]
    sections.append(("Growth", _growth([int(persons * options.scale) for persons in sizes], place)))
    head = (
        f"{size.persons:,} persons, {size.persons * size.follows_each:,} follows. A system that needs more than "
        f"{place.seconds:g} s or {MEMORY / 1e9:.0f} GB for an answer is ended; "
        "the first answer of a process may take three times that."
    )
    return "\n\n".join([head, *(f"## {title}\n\n{text}" for title, text in sections)])


def _require_packages() -> None:
    wanted = (*PACKAGES, "matplotlib")
    installed = {name.lower() for package in importlib.metadata.distributions() if (name := package.metadata["Name"])}
    missing = [package for package in wanted if package not in installed]
    if missing:
        raise SystemExit(f"the query benchmark needs {', '.join(missing)}: pip install -e '.[bench]'")


def _prepared(place: Place) -> Place:
    for system in SYSTEMS.values():
        system.prepare(place.size, place.directory)
    return place


def _group(group: Group, place: Place) -> tuple[str, str]:
    results = compete(list(SYSTEMS), group.workloads, place)
    file = REPORTS / f"queries-{group.name}.svg"
    plots.bars(group.title, results, file)
    return group.title, f"{table(results)}\n\n{_agreement(results)}\n\n![{group.title}]({file.name})"


def table(results: list[Result]) -> str:
    names = list(results[0].outcomes)
    head = ["workload", *(SYSTEMS[name].title for name in names), "best peer", "ratio", "target", "met"]
    return markdown(head, (_cells(result) for result in results))


def _cells(result: Result) -> list[str]:
    best = SYSTEMS[result.best[0]].title if result.best else "none"
    times = [outcome_text(outcome) for outcome in result.outcomes.values()]
    return [result.workload.title, *times, best, result.ratio(), result.target(), result.met()]


def _agreement(results: Iterable[Result]) -> str:
    lines = [f"- {disagreement}" for result in results for disagreement in result.disagreements]
    return "\n".join(["Answers differ:", "", *lines]) if lines else "All answers agree."


def _first_table(place: Place) -> str:
    """Measure opening the database and the first query in a new process, without imports."""
    lines = []
    for workload in FIRST:
        first = {name: _first(name, workload, place) for name in SYSTEMS}
        warm = compete([OURS], [workload], place)[0].ours
        lines.append(
            [
                workload.title,
                *(outcome_text(outcome) for outcome in first.values()),
                outcome_text(warm),
                *_first_verdict(first, warm),
            ]
        )
    head = ["workload", *(system.title for system in SYSTEMS.values()), "omnigraph warm", "first - warm", "target", "met"]
    return markdown(head, lines)


def _first(system: str, workload: Workload, place: Place) -> Sample | str:
    times = []
    try:
        for number in range(_PROCESSES):
            with Worker(system, place) as worker:
                opened = worker.open()
                times.append(opened + worker.run(workload, workload.parameters(number, place.size.persons)).milliseconds)
    except GaveUp as why:
        return str(why)
    return Sample(tuple(times))


def _first_verdict(first: dict[str, Sample | str], warm: Sample | str) -> list[str]:
    ours = first[OURS]
    if isinstance(ours, str) or isinstance(warm, str):
        return ["—", f"≤ {FIRST_QUERY:g} ms", "no"]
    more = ours.median - warm.median
    return [f"{more:,.0f} ms", f"≤ {FIRST_QUERY:g} ms", "yes" if more <= FIRST_QUERY else "no"]


def _growth(persons: list[int], place: Place) -> str:
    results: dict[int, list[Result]] = {}
    peaks = {}
    systems = [name for name in SYSTEMS if name != "datafusion"]
    for count in persons:
        grown = _prepared(replace(place, size=Size(count, GROWING_FOLLOWS)))
        results[count] = compete(systems, GROWING, grown)
        peaks[count] = _peak(grown)
    plots.growth(results, REPORTS / "queries-growth.svg")
    head = ["workload", *(f"{count:,} persons" for count in persons)]
    lines = [
        [workload.title, *(outcome_text(results[count][position].ours) for count in persons)]
        for position, workload in enumerate(GROWING)
    ]
    lines.append(["peak memory MB after all of them", *(peaks[count] for count in persons)])
    note = (
        f"Ours, with {GROWING_FOLLOWS} follows for each person; cities, states, countries and interests stay. A million "
        f"persons, measured with `--million`, should stay under {RESIDENT / 1e6:,.0f} MB."
    )
    return f"{note}\n\n{markdown(head, lines)}\n\n![Growth](queries-growth.svg)"


def _peak(place: Place) -> str:
    """Return the peak memory of one of our processes after it has answered each growing workload once."""
    with Worker(OURS, place) as worker:
        try:
            for workload in GROWING:
                worker.run(workload, workload.parameters(0, place.size.persons))
            return f"{worker.peak() / 1e6:,.0f}"
        except GaveUp as why:
            return str(why)


def main(names: list[str]) -> int:
    """Run some workloads and print their table, without writing the report."""
    workloads = {workload.name: workload for group in GROUPS for workload in group.workloads}
    unknown = [name for name in names if name not in workloads]
    if unknown:
        print(f"no such workload: {', '.join(unknown)}; there are {', '.join(workloads)}", file=sys.stderr)
        return 2
    place = _prepared(Place(Size(), default_directory(), LIMIT))
    print(table(compete(list(SYSTEMS), [workloads[name] for name in names], place)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
