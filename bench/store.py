"""The speed of writes to the store: bulk loads, and commits of one row."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench import commits, loading, people
from bench.measure import markdown, shown

INTRO = (
    "Writing through the store: validated, published, recorded in the history and safe against a crash. The peer is bare "
    "Lance, which does none of that: the same rows, written into tables of the same shape. Their runs and ours alternate."
)
HUGE_INTRO = (
    "A JSONL file that is larger than a process should be: read, validated and published in one commit, in a child process."
)
GROWTH_INTRO = (
    "In the first two rows every commit adds a fragment to the table; our writes fold them as they go, the tables of bare "
    "Lance, which had as many commits, keep them. In the third a table has one fragment all the time."
)
HUGE_BYTES = 3_000_000_000
RECORDS_PER_SECOND = 200_000
HUGE_MEMORY = 1_500_000_000
GROWTH = 1.3


def run(options: argparse.Namespace) -> str:
    """Measure, and return the tables of the report."""
    nodes = _scaled(people.NODES, options.scale)
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        directory = Path(name)
        bulk = loading.bulk_loads(directory, nodes, repeat=5)
        children = loading.jsonl_loads(directory, nodes, repeat=3)
        upserts, parts = commits.upserts(directory, _scaled(1_000_000, options.scale), repeat=15)
        grown = commits.growth(directory, max(_scaled(1000, options.scale), 20), repeat=15)
    sections = [
        ("Against bare Lance", _comparisons([*bulk, *upserts])),
        ("JSONL", _children(children, f"{nodes:,} nodes, {nodes * people.EDGES_PER_NODE:,} edges as JSONL")),
        ("Where the time of an upsert goes", _parts(parts)),
        ("After a long history", _growth(grown, max(_scaled(1000, options.scale), 20))),
    ]
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in sections)


def run_huge(options: argparse.Namespace) -> str:
    """Measure the load of one very large file."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        file = Path(name) / "people.jsonl"
        people.write_jsonl(file, people.nodes_for(options.huge_bytes))
        size = file.stat().st_size
        child = loading.load_in_child(Path(name), file)
    return _children([child], f"{size / 1e9:.2f} GB, {child.records:,} records", memory=HUGE_MEMORY)


def _scaled(size: int, scale: float) -> int:
    return max(int(size * scale), 1)


def _comparisons(comparisons: Iterable[loading.Comparison]) -> str:
    head = ["workload", "omnigraph ms (quartiles)", "bare Lance ms (quartiles)", "omnigraph / Lance", "target"]
    return markdown(
        head,
        (
            [
                comparison.workload,
                shown(comparison.ours),
                shown(comparison.peer),
                f"{comparison.ratio:.2f}",
                f"≤ {comparison.target:g}",
            ]
            for comparison in comparisons
        ),
    )


def _children(children: list[loading.Child], workload: str, memory: int | None = None) -> str:
    rates = [child.per_second for child in children]
    peaks = [child.peak for child in children]
    spread = f" ({min(rates):,.0f} to {max(rates):,.0f})" if len(rates) > 1 else ""
    head = [
        "workload",
        "records/s" + (" (range)" if spread else ""),
        "target",
        "peak memory MB",
        "target",
        "before the load MB",
    ]
    cells = [
        workload,
        f"{statistics.median(rates):,.0f}{spread}",
        f"≥ {RECORDS_PER_SECOND:,}",
        f"{max(peaks) / 1e6:,.0f}",
        "—" if memory is None else f"< {memory / 1e6:,.0f}",
        f"{children[0].before / 1e6:,.0f}",
    ]
    return markdown(head, [cells])


def _parts(parts: list[tuple[str, float]]) -> str:
    return markdown(["part", "ms"], ([label, f"{spent:.1f}"] for label, spent in parts))


def _growth(growths: list[commits.Growth], late: int) -> str:
    head = [
        "one-row commits",
        "10th ms (quartiles)",
        f"{late}th ms (quartiles)",
        f"{late}th / 10th",
        "target",
        "fragments of our table",
        "of bare Lance's",
        "the same on bare Lance: 10th ms",
        f"{late}th ms",
        f"{late}th / 10th",
    ]
    lines = (
        [
            growth.workload,
            shown(growth.young),
            shown(growth.old),
            f"{growth.old.median / growth.young.median:.2f}",
            f"≤ {GROWTH}",
            f"{growth.fragments:,}",
            f"{growth.bare_fragments:,}",
            f"{growth.bare_young.median:.1f}",
            f"{growth.bare_old.median:.1f}",
            f"{growth.bare_old.median / growth.bare_young.median:.2f}",
        ]
        for growth in growths
    )
    return f"{GROWTH_INTRO}\n\n{markdown(head, lines)}"
