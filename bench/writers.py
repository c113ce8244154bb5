"""How many commits a second several processes make on one graph, against SQLite and LanceDB doing the same inserts."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.measure import markdown
from bench.writer_child import SYSTEMS, count_rows, prepare

INTRO = (
    "Several processes commit one row at a time, an upsert by key, as fast as they can: all of them into one table, or "
    "each on a branch of its own. Peers have no branches; there each process gets a table of its own in the one "
    "database. SQLite runs with a write-ahead log, once syncing as it does by default in that mode (`NORMAL`) and once "
    "at every commit (`FULL`); it keeps no versions. LanceDB keeps versions of each table but commits no two of them "
    "together. Commits per second, medians of runs in turn; a commit that lost against another process is repeated, and "
    "the repetitions are in the time. Every run ends with a count of the rows."
)
WRITERS = (1, 2, 4, 8)
COMMITS = 40
LAYOUTS = {"one branch": False, "own branches": True}


@dataclass(frozen=True)
class Speed:
    """Commits per second of several runs, and rows that were missing in the end."""

    rates: tuple[float, ...]
    missing: int

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


def run(options: argparse.Namespace) -> str:
    """The table of the report."""
    count = max(int(COMMITS * options.scale), 3)
    lines = [
        _line(layout, writers, _measured(apart, writers, count, repeat=3))
        for layout, apart in LAYOUTS.items()
        for writers in WRITERS
    ]
    peers = [name for name in SYSTEMS if name != "omnigraph"]
    head = ["workload", "writers", *(f"{name} commits/s" for name in SYSTEMS), *(f"omnigraph / {name}" for name in peers)]
    return markdown([*head, "rows lost"], lines)


def _measured(apart: bool, writers: int, count: int, repeat: int) -> dict[str, Speed]:
    rates: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    missing = dict.fromkeys(SYSTEMS, 0)
    for _ in range(repeat):
        for name in SYSTEMS:
            rate, lost = _one_run(name, apart, writers, count)
            rates[name].append(rate)
            missing[name] += lost
    return {name: Speed(tuple(rates[name]), missing[name]) for name in SYSTEMS}


def _one_run(system: str, apart: bool, writers: int, count: int) -> tuple[float, int]:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        directory = Path(name)
        places = [f"w{number}" if apart else "main" for number in range(writers)]
        prepare(system, directory, sorted(set(places)))
        children = [_start(system, directory, place, number, count) for number, place in enumerate(places)]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n", "a writer did not come up"
        (directory / "gate").touch()
        told = [json.loads(child.communicate()[0]) for child in children]
        spent = max(each["end"] for each in told) - min(each["start"] for each in told)
        lost = writers * count - count_rows(system, directory, sorted(set(places)))
    return writers * count / spent, lost


def _start(system: str, directory: Path, place: str, number: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.writer_child", system, str(directory), place, str(number), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _line(layout: str, writers: int, speeds: dict[str, Speed]) -> list[str]:
    ours = speeds["omnigraph"]
    shown = [f"{speed.median:,.1f} ({min(speed.rates):,.1f} to {max(speed.rates):,.1f})" for speed in speeds.values()]
    ratios = [f"{ours.median / speed.median:.3f}" for name, speed in speeds.items() if name != "omnigraph"]
    lost = ", ".join(f"{name} {speed.missing}" for name, speed in speeds.items() if speed.missing) or "none"
    return [layout, str(writers), *shown, *ratios, lost]
