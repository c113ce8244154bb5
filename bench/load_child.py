"""`python -m bench.load_child ROOT FILE`: create a graph, load a JSONL file into it, and say what that took, as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import omnigraph_sql as og
from bench.people import SCHEMA


def peak_bytes() -> int:
    """The peak memory of this process.

    `ru_maxrss` of a child process includes the memory of its parent before the fork; Linux also reports the child's own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text("ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(root: str, file: str) -> None:
    graph = og.init(root, SCHEMA)
    before = peak_bytes()
    start = time.perf_counter()
    result = graph.load(Path(file), mode="append")
    seconds = time.perf_counter() - start
    records = sum(result.nodes.values()) + sum(result.edges.values())
    print(json.dumps({"records": records, "seconds": seconds, "before": before, "peak": peak_bytes()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
