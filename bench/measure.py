"""Timing: warm up, repeat, and report the median with its spread."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """Milliseconds of repeated runs."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def spread(self) -> tuple[float, float]:
        """First and third quartile."""
        low, _, high = statistics.quantiles(self.times, n=4)
        return low, high


def measure(run: Callable[[], object], *, repeat: int = 15, warm_up: int = 3) -> Sample:
    for _ in range(warm_up):
        run()
    times = []
    gc.collect()
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1000)
    return Sample(tuple(times))


def alternate(*runs: Callable[[int], object], repeat: int, warm_up: int = 1) -> list[Sample]:
    """Measure several functions in turn, so that other load on the machine affects all of them.

    Each is called with the number of the repetition. If it returns a function, that is called afterwards and not measured.
    """
    times: list[list[float]] = [[] for _ in runs]
    # As `timeit` does: a collection before each run would evict its data from the caches of the processor.
    gc.collect()
    gc.disable()
    try:
        for number in range(warm_up + repeat):
            for run, taken in zip(runs, times, strict=True):
                start = time.perf_counter()
                after = run(number)
                taken.append((time.perf_counter() - start) * 1000)
                if callable(after):
                    after()
    finally:
        gc.enable()
    return [Sample(tuple(taken[warm_up:])) for taken in times]


@dataclass(frozen=True)
class Row:
    """One workload: ours against each peer."""

    workload: str
    ours: Sample
    peers: dict[str, Sample]


def table(rows: list[Row]) -> str:
    """Return a Markdown table of our times, and the ratios of the peers' times to ours (above 1: we are faster)."""
    names = sorted({name for row in rows for name in row.peers})
    head = [
        "workload",
        "omnigraph ms (quartiles)",
        *(f"{name} ms" for name in names),
        *(f"{name} / omnigraph" for name in names),
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        low, high = row.ours.spread
        cells = [row.workload, f"{row.ours.median:.2f} ({low:.2f} to {high:.2f})"]
        cells += [f"{row.peers[name].median:.2f}" if name in row.peers else "—" for name in names]
        cells += [f"{row.peers[name].median / row.ours.median:.2f}" if name in row.peers else "—" for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table of formatted cells."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *lines])


def shown(sample: Sample) -> str:
    """Return the median and quartiles in milliseconds as a text."""
    low, high = sample.spread
    digits = 0 if sample.median >= 1000 else 1
    return f"{sample.median:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"
