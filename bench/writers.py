"""Commits per second of several processes on one graph, against SQLite and LanceDB with the same inserts."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import markdown
from bench.writer_child import SYSTEMS, count_rows, prepare

INTRO = """\
Several processes commit one row at a time, an upsert by key, as fast as they can and for a fixed time: all of them on \
one branch, or each on a branch of its own. Peers have no branches; there each process gets a table of its own in the \
one database. A store begins each run empty, and each process commits one row before the clock starts. A process \
begins no commit after the time is up, and the last one that ends stops the clock. A commit that lost against another \
process does not count; it is tried again, and that is in the time.

What one commit is:

- **omnigraph**: `mutate` with one `insert`. The row is validated and its key looked up; a new version of the table, a \
new version of the manifest and a row of the commit journal are written. The sidecar that recovery needs is flushed to \
disk, the rest is left to the operating system. Writers of one table queue; every version stays readable.
- **SQLite** (write-ahead log): `INSERT … ON CONFLICT DO UPDATE` as a transaction of its own that appends to the log. \
`NORMAL` flushes nothing at a commit, `FULL` flushes the log. Writers of one database queue. It keeps no versions.
- **LanceDB**: `merge_insert` by key: a new version of one table. Nothing is flushed. Writers of one table collide; \
LanceDB repeats a merge that lost; when it gives up, we try again. It keeps versions of each table, but commits no two \
tables together.

Commits per second of all processes together: the median of the runs, and the lowest and highest. Systems take turns, \
so that a machine that is busy for a while is busy for all of them. `refused` counts commits that a system gave back \
to the caller to try again. Every run ends with a count of the rows."""
WRITERS = (1, 2, 4, 8)
SECONDS = 2.0
RUNS = 3
LAYOUTS = {"one branch": False, "own branches": True}

Child = subprocess.Popen[str]


@dataclass(frozen=True)
class Run:
    """Commits per second, the number of lost attempts, and the number of missing rows at the end."""

    rate: float
    refused: int
    missing: int


@dataclass(frozen=True)
class Speed:
    """Several runs of one system."""

    runs: tuple[Run, ...]

    @property
    def median(self) -> float:
        return statistics.median(run.rate for run in self.runs)

    def shown(self) -> str:
        rates = [run.rate for run in self.runs]
        return f"{self.median:,.1f} ({min(rates):,.1f} to {max(rates):,.1f})"


def run(options: argparse.Namespace) -> str:
    """The table of the report."""
    seconds = SECONDS * options.scale
    with _children(max(WRITERS)) as children:
        lines = [
            _line(layout, writers, _measured(children[:writers], layout, seconds))
            for layout in LAYOUTS
            for writers in WRITERS
        ]
    peers = [name for name in SYSTEMS if name != "omnigraph"]
    head = ["workload", "writers", *(f"{name} commits/s" for name in SYSTEMS), *(f"omnigraph / {name}" for name in peers)]
    facts = f"{RUNS} runs of {seconds:g} seconds each."
    return f"{facts}\n\n{markdown([*head, 'refused', 'rows lost'], lines)}"


@contextmanager
def _children(count: int) -> Iterator[list[Child]]:
    """Start processes that write on request. All rounds share them, because a start takes longer than most rounds."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            command = [sys.executable, "-m", "bench.writer_child"]
            made.append(
                stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            )
        yield made


def _measured(children: list[Child], layout: str, seconds: float) -> dict[str, Speed]:
    runs: dict[str, list[Run]] = {name: [] for name in SYSTEMS}
    for number in range(RUNS):
        for name in SYSTEMS:
            runs[name].append(_one_run(name, children, seconds, apart=LAYOUTS[layout]))
        rates = ", ".join(f"{name} {runs[name][-1].rate:,.1f}" for name in SYSTEMS)
        print(f"{layout}, writers {len(children)}, run {number + 1} of {RUNS}: {rates}", file=sys.stderr, flush=True)
    return {name: Speed(tuple(measured)) for name, measured in runs.items()}


def _one_run(system: str, children: list[Child], seconds: float, *, apart: bool) -> Run:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        directory = Path(name)
        places = [f"w{number}" if apart else "main" for number in range(len(children))]
        prepare(system, directory, sorted(set(places)))
        for number, (child, place) in enumerate(zip(children, places, strict=True)):
            order = {"system": system, "directory": name, "place": place, "number": number, "seconds": seconds}
            assert child.stdin is not None
            child.stdin.write(json.dumps(order) + "\n")
            child.stdin.flush()
        for child in children:
            assert _reply(child) == "ready\n", "a writer did not come up"
        (directory / "gate").touch()
        reports = [json.loads(_reply(child)) for child in children]
        done = sum(report["done"] for report in reports)
        spent = max(report["end"] for report in reports) - min(report["start"] for report in reports)
        missing = done + len(children) - count_rows(system, directory, sorted(set(places)))
    return Run(done / spent, sum(report["lost"] for report in reports), missing)


def _reply(child: Child) -> str:
    assert child.stdout is not None
    return child.stdout.readline()


def _line(layout: str, writers: int, speeds: dict[str, Speed]) -> list[str]:
    ours = speeds["omnigraph"]
    ratios = [f"{ours.median / speed.median:.2g}" for name, speed in speeds.items() if name != "omnigraph"]
    refused = _counted({name: sum(run.refused for run in speed.runs) for name, speed in speeds.items()})
    missing = _counted({name: sum(run.missing for run in speed.runs) for name, speed in speeds.items()})
    return [layout, str(writers), *(speed.shown() for speed in speeds.values()), *ratios, refused, missing]


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or "none"
