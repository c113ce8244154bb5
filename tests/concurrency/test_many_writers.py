"""Several processes write at once, and some of them die: nothing acknowledged is lost or there twice, chains are linear."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

import omnigraph_sql as og
from tests.concurrency.workers import Team, Worker, team
from tests.crash.world import assert_settled, edge, names, node, rows, sidecars
from tests.simulation.state import SCHEMA
from tests.stores import Place, patient, repetitions


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Team]:
    with team(tmp_path / "workers") as made:
        yield made


@dataclass(frozen=True)
class Writing:
    """A worker that commits on a branch."""

    worker: Worker
    branch: str

    @property
    def done(self) -> dict[str, str]:
        """Acknowledged keys and their commits."""
        lines = [line.split(" ") for line in self.worker.said()]
        return {line[1]: line[2] for line in lines if line[0] == "done"}

    @property
    def started(self) -> set[str]:
        return {line.split(" ")[1] for line in self.worker.said() if line.startswith("start ")}


def begin(workers: Team, root: Place, branch: str, name: str, count: int) -> Writing:
    return Writing(workers.start("commits", root=str(root), branch=branch, name=name, count=count), branch)


def check(workers: Team, root: Place, branches: list[str], *, count: int, kills: int = 0) -> None:
    """One writer per entry of `branches`; killed ones are replaced."""
    count, kills = repetitions(count), repetitions(kills)
    graph = og.init(root, SCHEMA)
    for branch in sorted({*branches} - {"main"}):
        graph.create_branch(branch)
    running = [begin(workers, root, branch, f"w{number}", count) for number, branch in enumerate(branches)]
    killed = []
    random = Random(kills)
    for number in range(kills):
        victim = running.pop(random.randrange(len(running)))
        victim.worker.await_line("ready")
        time.sleep(random.uniform(0.1, 0.6))
        victim.worker.kill()
        killed.append(victim)
        running.append(begin(workers, root, victim.branch, f"r{number}", count))
    for each in running:
        each.worker.join()
        assert len(each.done) == count

    graph = og.connect(root)
    assert_settled(graph)
    for branch in {*branches}:
        check_branch(graph, branch, [each for each in [*running, *killed] if each.branch == branch])


def check_branch(graph: og.Graph, branch: str, writings: list[Writing]) -> None:
    done = {key: commit for each in writings for key, commit in each.done.items()}
    started = {key for each in writings for key in each.started}
    found = rows(graph, branch)
    people = Counter(row["id"] for row in found["Person"])
    pairs = Counter(row["id"] for row in found.get("Knows", []))
    assert {*people.values(), *pairs.values()} <= {1}, "a row is there twice"
    assert done.keys() <= people.keys() <= started, "an acknowledged row is lost, or one came from nowhere"
    assert pairs.keys() == {key for key in people if int(key.split("-")[1]) % 3 == 0}, "half a write is there"
    history = Counter(commit.graph_commit_id for commit in graph.commits(branch))
    assert {history[commit] for commit in done.values()} == {1}, "an acknowledged commit is not in the history"
    assert len({*done.values()}) == len(done), "two writes share a commit"


# In CI: a few writers -----------------------------------------------------------------------------------------------


def test_four_writers_on_one_branch(workers: Team, place: Place) -> None:
    check(workers, place / "g", ["main"] * 4, count=15)


def test_four_writers_on_their_own_branches_and_one_is_killed(workers: Team, place: Place) -> None:
    check(workers, place / "g", [f"b{number}" for number in range(4)], count=15, kills=1)


def test_four_writers_of_which_some_are_killed(workers: Team, place: Place) -> None:
    check(workers, place / "g", ["main"] * 4, count=8, kills=3)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [0, 20])
@pytest.mark.parametrize("shared", [True, False], ids=["one branch", "eight branches"])
def test_eight_writers(workers: Team, place: Place, shared: bool, kills: int) -> None:
    branches = ["main"] * 8 if shared else [f"b{number}" for number in range(8)]
    check(workers, place / "g", branches, count=200, kills=kills)


# Races ---------------------------------------------------------------------------------------------------------------


def rounds() -> int:
    return repetitions(30)


def race(workers: Team, root: Place, roles: list[str], gates: Path) -> list[Counter[str]]:
    """Run roles against each other, round by round; how often each role succeeded, was refused or lost."""
    gates.mkdir()
    running = [workers.start("rounds", root=str(root), gates=str(gates), count=rounds(), role=role) for role in roles]
    for number in range(rounds()):
        for worker in running:
            worker.await_line(f"ready {number}")
        (gates / str(number)).touch()
    for worker in running:
        worker.join()
    return [Counter(line.split(" ")[0] for line in worker.said()) for worker in running]


def test_an_edge_never_points_at_a_node_that_is_deleted_meanwhile(workers: Team, place: Place, tmp_path: Path) -> None:
    graph = og.init(place / "g", SCHEMA)
    graph.load(
        [node("Person", name="ann"), *(node("Person", name=f"p{number}") for number in range(rounds()))], mode="append"
    )

    deleting, pointing = race(workers, place / "g", ["delete the node", "point an edge at it"], tmp_path / "gates")

    graph = og.connect(place / "g")
    people = names(graph)
    dangling = [row for row in rows(graph).get("Knows", []) if row["to"] not in people]
    assert dangling == [], f"write skew in {len(dangling)} of {rounds()} rounds"
    assert deleting["done"] + deleting["conflict"] == rounds()
    assert pointing["done"] + pointing["conflict"] + pointing["refused"] == rounds()
    assert_settled(graph)


def test_an_edge_never_points_at_a_node_that_is_overwritten_meanwhile(workers: Team, place: Place, tmp_path: Path) -> None:
    graph = og.init(place / "g", SCHEMA)
    graph.load([node("Person", name="ann"), node("Team", slug="t0")], mode="append")

    outcomes = race(workers, place / "g", ["replace the teams", "join a team"], tmp_path / "gates")

    graph = og.connect(place / "g")
    for commit in graph.commits():
        shown = rows(graph, commit=commit.graph_commit_id)
        teams = {row["id"] for row in shown.get("Team", [])}
        assert {row["to"] for row in shown.get("Member", [])} <= teams, f"write skew in {commit}"
    assert all(sum(each[word] for word in ("done", "conflict", "refused")) == rounds() for each in outcomes)
    assert_settled(graph)


@pytest.mark.parametrize("kinds", [["Person"], ["Person", "Team"]], ids=["one table", "two tables"])
def test_a_key_that_eight_processes_publish_at_once_makes_one_commit(
    workers: Team, place: Place, tmp_path: Path, kinds: list[str]
) -> None:
    root = place / "g"
    before = len(og.init(root, SCHEMA).commits())
    running = [
        workers.start("keyed", root=str(root), gate=str(tmp_path / "gate"), key="k", kind=kinds[number % len(kinds)])
        for number in range(8)
    ]
    for worker in running:
        worker.await_line("ready")
    (tmp_path / "gate").touch()
    for worker in running:
        worker.join()

    graph = og.connect(root)
    (commit,) = {line.removeprefix("done ") for worker in running for line in worker.said() if line.startswith("done ")}
    assert [each.graph_commit_id for each in graph.commits() if each.idempotency_key == "k"] == [commit]
    assert len(rows(graph)) == 1, "the write of a loser is there, too"
    assert len(graph.commits()) >= before + 1
    assert_settled(graph)


def test_the_sidecar_of_a_living_writer_blocks_nobody(workers: Team, place: Place) -> None:
    root = place / "g"
    og.init(root, SCHEMA).load([node("Person", name="ann")], mode="append")
    slow = workers.start("paused", root=str(root), rule=patient("write.post_effects_pre_publish=sleep(1500)"))
    slow.await_line("ready")
    while not sidecars(root):
        time.sleep(0.005)

    graph = og.connect(root)
    graph.load([node("Team", slug="red")], mode="append")

    assert "done" not in slow.said(), "the opening waited for the writer"
    assert len(graph.recoveries()["pending"]) == 1
    assert names(graph) == ["ann"]
    slow.join()
    assert names(graph) == ["ann", "slow"]
    assert og.connect(root).recoveries() == {"pending": [], "quarantined": [], "audit": []}
    graph.load([edge("Knows", "ann", "slow", id="k")], mode="append")
    assert_settled(graph)
