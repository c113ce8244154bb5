"""How long a command takes that is given to a new process: on a small graph, nearly all of it is the start."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.measure import markdown

INTRO = (
    "Commands on a graph of 50 nodes and 150 edges, and imports, each in a new process, in turn with "
    '`python -c "import pyarrow"`. The quickest of several runs counts: what another one takes beyond it is due to the '
    "machine. Ratios compare machines; the processor's time does not depend on what else runs."
)
PACKAGES = ("omnigraph-sql", "pyarrow", "pylance", "datafusion", "numba")
RUNS = 15
SCHEMA = """
node Port { code: String @key  depth: F64? }
edge Lane: Port -> Port
"""
QUERIES = """
query deep($depth: F64) { match { $p: Port  $p.depth > $depth } return { $p.code } order { $p.code } }
query next($code: String) { match { $p: Port { code: $code }  $p lane $q } return { $q.code } }
query dredge($code: String, $depth: F64) { update Port set { depth: $depth } where code = $code }
"""
_HIDDEN = 'raise ModuleNotFoundError("No module named \'pandas\'", name="pandas")\n'


@dataclass(frozen=True)
class Process:
    """The quickest run of a command: seconds that passed, and seconds of the processor."""

    passed: float
    worked: float

    def quickest(self, other: Process) -> Process:
        """The better one of each."""
        return Process(min(self.passed, other.passed), min(self.worked, other.worked))


def run(options: argparse.Namespace) -> str:  # noqa: ARG001 (every suite takes them)
    """The table of the report."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        directory = Path(name)
        _make_graph(directory)
        (directory / "hidden" / "pandas").mkdir(parents=True)
        (directory / "hidden" / "pandas" / "__init__.py").write_text(_HIDDEN, "utf-8")
        with_pandas = _measured(directory, os.environ.get("PYTHONPATH", ""))
        paths = [str(directory / "hidden"), *filter(None, [os.environ.get("PYTHONPATH")])]
        without = _measured(directory, os.pathsep.join(paths))
    head = ["command", "pandas", "ms", "of the processor", "ratio", "ratio of the processor"]
    tables = [("installed", with_pandas), ("not installed", without)]
    return markdown(head, [cells for pandas, table in tables for cells in _rows(pandas, table)])


def _rows(pandas: str, processes: dict[str, Process]) -> list[list[str]]:
    unit = processes["import pyarrow"]
    return [
        [
            f"`{name}`",
            pandas,
            f"{process.passed * 1000:.0f}",
            f"{process.worked * 1000:.0f}",
            f"{process.passed / unit.passed:.2f}",
            f"{process.worked / unit.worked:.2f}",
        ]
        for name, process in processes.items()
    ]


def _commands() -> dict[str, list[str]]:
    ogsql = [sys.executable, "-m", "ogsql"]
    dredge = json.dumps({"code": "P01", "depth": 3})
    return {
        "import pyarrow": [sys.executable, "-c", "import pyarrow"],
        "import omnigraph_sql": [sys.executable, "-c", "import omnigraph_sql"],
        "ogsql --help": [*ogsql, "--help"],
        "ogsql branch list": [*ogsql, "branch", "list", "graph"],
        "ogsql commit list": [*ogsql, "commit", "list", "graph"],
        "ogsql snapshot": [*ogsql, "snapshot", "graph"],
        "ogsql mutate": [*ogsql, "mutate", "graph", "--query", "ports.gq", "dredge", "--params", dredge],
        "ogsql query, a filter": [*ogsql, "query", "graph", "--query", "ports.gq", "deep", "--params", '{"depth": 70}'],
        "ogsql query, a hop": [*ogsql, "query", "graph", "--query", "ports.gq", "next", "--params", '{"code": "P01"}'],
        "ogsql sql": [*ogsql, "sql", "graph", "select count(*) as n from Port"],
    }


def _make_graph(directory: Path) -> None:
    records = [{"type": "Port", "data": {"code": f"P{number:02}", "depth": number * 1.5}} for number in range(50)]
    ends = [(number % 50, number * 7 % 50) for number in range(150)]
    edges = [{"edge": "Lane", "from": f"P{tail:02}", "to": f"P{head:02}"} for tail, head in ends]
    (directory / "ports.pg").write_text(SCHEMA, "utf-8")
    (directory / "ports.gq").write_text(QUERIES, "utf-8")
    (directory / "ports.jsonl").write_text("".join(json.dumps(record) + "\n" for record in [*records, *edges]), "utf-8")
    for words in (["init", "graph", "--schema", "ports.pg"], ["load", "graph", "--data", "ports.jsonl", "--mode", "append"]):
        subprocess.run([sys.executable, "-m", "ogsql", *words], cwd=directory, check=True, capture_output=True)


def _measured(directory: Path, path: str) -> dict[str, Process]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [path, str(Path(__file__).parent.parent)]))
    commands = _commands()
    best: dict[str, Process] = {}
    for _ in range(RUNS):
        for name, words in commands.items():
            process = _once(words, directory, environment)
            best[name] = process if name not in best else best[name].quickest(process)
    return best


def _once(words: list[str], directory: Path, environment: dict[str, str]) -> Process:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, cwd=directory, env=environment, check=True, capture_output=True)
    passed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Process(passed, worked)
