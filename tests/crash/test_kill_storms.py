"""Processes write to branches, delete them and make them anew under the same names, and are killed at random moments."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

import omnigraph_sql as og
from omnigraph_sql.store.locks.manager import LEASES_OFF
from tests import stores
from tests.concurrency.jobs import TWO_TABLES, both
from tests.concurrency.workers import Team, Worker, team
from tests.crash.world import names
from tests.stores import Place

BRANCHES = ["b", "c"]
WRITERS = 3
LINGERING = 2.0
"""Seconds that a request of a killed process may take to reach a store."""


@dataclass(frozen=True)
class Step:
    """What one process did, and when; it ended at infinity if the process was killed over it."""

    operation: str
    branch: str
    name: str
    began: float
    ended: float = math.inf
    outcome: str = "killed"


def steps_of(worker: Worker, killed_at: float) -> Iterator[Step]:
    lines = worker.said()[1:]
    for line, answer in zip(lines[::2], [*lines[1::2], ""], strict=False):
        _, began, operation, branch, name = line.split(" ")
        word, _, rest = answer.partition(" ")
        if word:
            ended, _, reason = rest.partition(" ")
            yield Step(operation, branch, name, float(began), float(ended), f"{word} {reason}".strip())
        else:
            yield Step(operation, branch, name, float(began), killed_at + LINGERING)


def storm(workers: Team, root: Place, random: Random, kills: int, pause: float) -> list[Step]:
    """Let processes loose, kill one after the other and replace it, and all of them in the end."""
    running: list[Worker] = []
    steps: list[Step] = []

    def start() -> None:
        running.append(workers.start("storm", root=str(root), seed=random.randrange(10**6), branches=BRANCHES))

    def kill(worker: Worker) -> None:
        worker.kill()
        complaints = worker.path.with_suffix(".errors").read_text("utf-8")
        assert "Traceback" not in complaints, complaints
        steps.extend(steps_of(worker, time.monotonic()))

    for _ in range(WRITERS):
        start()
    for _ in range(kills):
        victim = running.pop(random.randrange(len(running)))
        victim.await_line("ready")
        time.sleep(random.uniform(0, pause))
        kill(victim)
        start()
    for worker in running:
        worker.await_line("ready")
    time.sleep(pause)
    for worker in running:
        kill(worker)
    return sorted(steps, key=lambda step: step.began)


def check(root: Place, steps: list[Step]) -> None:
    """Every acknowledged write is there unless its branch was deleted since, and gone if it was."""
    graph = og.connect(root)
    assert graph.recoveries()["pending"] == []
    damaged = graph.damaged_branches()
    assert set(damaged) <= {step.branch for step in steps if step.operation == "create" and step.outcome == "killed"}, (
        damaged
    )
    for branch in damaged:
        graph.delete_branch(branch)
    writes = [step for step in steps if step.operation == "write"]
    for branch in graph.branches():
        shown = _shown(graph, branch)
        deletions = [step for step in steps if (step.operation, step.branch) == ("delete", branch)]
        started = {step.name for step in writes if step.branch in ("main", branch)}
        assert shown <= started, "a row came from nowhere"
        for write in (step for step in writes if step.branch == branch and step.outcome == "done"):
            kept = all(deletion.ended < write.began for deletion in deletions if deletion.outcome in ("done", "killed"))
            gone = any(write.ended < deletion.began for deletion in deletions if deletion.outcome == "done")
            assert write.name in shown or not kept, f"{write} is lost"
            assert write.name not in shown or not gone, f"{write} is back from a branch that was deleted"
    for branch in set(BRANCHES) - set(graph.branches()):
        created = max((step.ended for step in steps if _is_done(step, "create", branch)), default=-math.inf)
        deleted = [step for step in steps if step.operation == "delete" and step.branch == branch]
        assert any(step.ended > created for step in deleted) or created == -math.inf, f"{branch} is lost"
    for branch in graph.branches():
        graph.load(both(f"last-{branch}"), mode="append", branch=branch)
        assert f"last-{branch}" in _shown(og.connect(root), branch)


def _is_done(step: Step, operation: str, branch: str) -> bool:
    return (step.operation, step.branch, step.outcome) == (operation, branch, "done")


def _shown(graph: og.Graph, branch: str) -> set[str]:
    people, teams = names(graph, branch), names(graph, branch, "Team")
    assert people == teams, f"half a write is on {branch}"
    assert len(people) == len(set(people)), f"a row is on {branch} twice"
    history = graph.commits(branch)
    parents = [commit.parent_commit_id for commit in history]
    assert parents == [*(commit.graph_commit_id for commit in history[1:]), None], f"{branch} is not one chain"
    return set(people)


def weather(directory: Path, place: Place, seed: int, *, storms: int, kills: int, pause: float) -> None:
    random = Random(seed)
    with team(directory) as workers:
        for number in range(storms):
            root = place / f"g{number}"
            og.init(root, TWO_TABLES)
            steps = storm(workers, root, random, kills, pause * stores.patience)
            try:
                check(root, steps)
            except Exception as error:
                error.add_note("\n".join(map(str, steps)))
                raise
            assert any(step.outcome == "done" for step in steps), "nobody did anything; the test proves nothing"


@pytest.mark.parametrize("leases", ["on", "off"])
def test_a_storm(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leases: str) -> None:
    monkeypatch.setenv(LEASES_OFF, leases)
    weather(tmp_path / "workers", place, 1, storms=1, kills=stores.repetitions(8), pause=0.6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
@pytest.mark.parametrize("leases", ["on", "off"])
def test_storms(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leases: str, seed: int) -> None:
    monkeypatch.setenv(LEASES_OFF, leases)
    weather(tmp_path / "workers", place, seed, storms=4, kills=stores.repetitions(20), pause=1.0)
