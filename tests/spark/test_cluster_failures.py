"""Processes of a cluster that are killed, or overtaken by a second attempt: a job is published once, or not at all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from tests.spark import clusters
from tests.spark.cluster_failures import PARTS, ROWS
from tests.spark.conftest import SCHEMA
from tests.spark.helpers import heads, orphans, pins

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no list of processes"),
]

DRIVER = Path(__file__).with_name("cluster_failures.py")
EACH_ONCE = [f"{part}.0" for part in range(PARTS)]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with clusters.standalone(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def run(master: str, place: Path, *scenarios: str) -> dict[str, Any]:
    """What became of jobs, each on a graph of its own."""
    for each in scenarios:
        at = place / each.replace(" ", "-")
        at.mkdir()
        og.init(at / "graph", SCHEMA)
    said = clusters.run([sys.executable, str(DRIVER), str(place), master, *scenarios], place)
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def killed(master: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    place = tmp_path_factory.mktemp("killed")
    return place, run(master, place, "worker", "executor", "every attempt")


def published(graph: og.Graph) -> tuple[int, int]:
    """How many nodes there are, and how many keys."""
    (found,) = graph.sql('select count(*) as rows, count(distinct key) as keys from "Person"').to_pylist()
    return found["rows"], found["keys"]


def left(graph: og.Graph) -> list[str]:
    """Files that nobody refers to. Those that a killed process leaves are data files of its table, and nothing else."""
    data = f"{graph.snapshot().entry('node:Person').path}/data/"
    found = orphans(graph)
    assert [each for each in found if not each.startswith(data)] == []
    return found


@pytest.mark.parametrize("what", ["worker", "executor"])
def test_a_process_that_is_killed_while_it_writes(killed: tuple[Path, dict[str, Any]], what: str) -> None:
    """Spark repeats the task. What the killed one wrote is not published."""
    place, became = killed
    graph = og.connect(place / what / "graph")

    assert became[what]["killed"] == 1
    assert (became[what]["result"], became[what]["failure"]) == ({"Person": ROWS}, None)
    assert {*EACH_ONCE, "0.1"} <= set(became[what]["attempts"])
    assert published(graph) == (ROWS, ROWS)
    assert heads(graph) == pins(graph)
    assert len(graph.commits()) == 2
    assert og.spark.staged_loads(graph.uri) == []
    assert len(left(graph)) <= 1


def test_a_task_whose_every_attempt_is_killed(killed: tuple[Path, dict[str, Any]]) -> None:
    place, became = killed
    graph = og.connect(place / "every-attempt" / "graph")

    assert became["every attempt"]["killed"] == 4
    assert "Python worker exited unexpectedly" in became["every attempt"]["failure"]
    assert (published(graph), len(graph.commits())) == ((0, 0), 1)
    assert heads(graph) == pins(graph)
    assert og.spark.staged_loads(graph.uri) == []
    assert len(left(graph)) == 4


def test_a_task_that_is_overtaken_by_a_second_attempt(master: str, tmp_path: Path) -> None:
    """Spark starts it on another machine while the first one still runs."""
    became = run(master, tmp_path, "speculation")["speculation"]
    graph = og.connect(tmp_path / "speculation" / "graph")

    assert {*EACH_ONCE, "0.1"} <= set(became["attempts"])
    assert (became["result"], became["failure"]) == ({"Person": ROWS}, None)
    assert published(graph) == (ROWS, ROWS)
    assert heads(graph) == pins(graph)
    assert og.spark.staged_loads(graph.uri) == []
    left(graph)
