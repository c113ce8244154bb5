"""The time and memory of reads on a large graph: `python -m bench.scale [NODES] [EDGES_PER_NODE]`.

The graph is created and loaded once. Then three processes run the same queries, one after the other: the first without
derived files, the second with those of the first, the third with traversals over the edge table, which has no index.
Times are processor times, which depend less on other load.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import people
from bench.measure import markdown

QUESTIONS = {
    "key": "match { $p: Person { name: $n } } return { $p.age }",
    "one hop": "match { $p: Person { name: $n } $p knows $q } return { $q.name, $q.age }",
    "two hops": "match { $p: Person { name: $n } $p knows $q $q knows $r } return { count($r) as n }",
    "within three hops": "match { $p: Person { name: $n } $p knows{1,3} $q } return { count($q) as n }",
    "count of all hops": "match { $p: Person $p knows $q } return { count($q) as n }",
    "first by age": "match { $p: Person } return { $p.name } order { $p.age } limit 3",
}
FEW = ("key", "one hop", "two hops", "within three hops")
"""Questions that start at one vertex."""
REPEAT = 5


def ask(root: str, names: list[str]) -> None:
    """In a child process: run each question several times, and print milliseconds and memory."""
    import omnigraph_sql as og

    with og.connect(root) as graph:
        for name in names:
            times = []
            for number in range(REPEAT):
                start = time.process_time()
                graph.query(f"query q($n: String) {{ {QUESTIONS[name]} }}", params={"n": people.person(number + 7)})
                times.append((time.process_time() - start) * 1000)
            print(name, *(f"{milliseconds:.1f}" for milliseconds in times), _memory(), sep="\t", flush=True)


def _memory() -> str:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("utf-8").splitlines())
    return "\t".join(f"{int(status[name].split()[0]) / 1000:.0f}" for name in ("VmRSS", "VmHWM"))


def _child(root: Path, names: list[str], mode: str) -> list[list[str]]:
    command = [sys.executable, "-m", "bench.scale", "ask", str(root), *names]
    done = subprocess.run(
        command, env=os.environ | {"OMNIGRAPH_TRAVERSAL_MODE": mode}, check=True, capture_output=True, text=True
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


def main(nodes: int, edges_per_node: int) -> None:
    """Load, ask, print a table."""
    import omnigraph_sql as og

    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        root = Path(name) / "graph"
        with og.init(root, people.SCHEMA) as graph:
            graph.load(people.tables(nodes, edges_per_node), mode="overwrite")
        head = ["question", *(f"run {number + 1}, ms" for number in range(REPEAT)), "resident MB", "peak MB"]
        for title, names, mode in (
            ("Nothing derived", list(QUESTIONS), ""),
            ("With the files of the first process", list(QUESTIONS), ""),
            ("Asking the tables only", list(FEW), "indexed"),
        ):
            print(f"\n## {title}: {nodes:,} nodes, {nodes * edges_per_node:,} edges\n")
            print(markdown(head, _child(root, names, mode)))
        derived = sum(path.stat().st_size for path in (root / "_derived").rglob("*.arrow"))
        print(f"\nDerived files: {derived / 1e6:,.0f} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["ask"]:
        ask(sys.argv[2], sys.argv[3:])
    else:
        sizes = [int(argument) for argument in sys.argv[1:]] + [1_000_000, 10][len(sys.argv) - 1 :]
        main(*sizes)
