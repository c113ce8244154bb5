"""Processes that race for the names of tags while others write: of those who want one name exactly one gets it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph_sql as og
from tests.concurrency.workers import Team, team
from tests.crash.world import assert_settled, names, rows, seeded
from tests.stores import Place, repetitions


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Team]:
    with team(tmp_path / "workers") as made:
        yield made


def test_of_many_who_want_one_name_one_gets_it(workers: Team, place: Place, tmp_path: Path) -> None:
    graph = seeded(place / "g")
    count = repetitions(12)
    gates = tmp_path / "gates"
    gates.mkdir()
    job = {"root": str(place / "g"), "gates": str(gates), "count": count}
    rivals = [workers.start("rounds", role="tag the release", **job) for _ in range(3)]
    writer = workers.start("rounds", role="write the next", **job)
    for number in range(count):
        for worker in (*rivals, writer):
            worker.await_line(f"ready {number}")
        (gates / str(number)).touch()
    for worker in (*rivals, writer):
        worker.join()

    for number in range(count):
        outcomes = [line for worker in rivals for line in worker.said() if line.split(" ")[:2][-1] == str(number)]
        won = [line for line in outcomes if line.startswith("done")]
        assert len(won) == 1, outcomes
        assert sum(line.startswith("conflict") for line in outcomes) == len(rivals) - 1
    assert [line for line in writer.said() if line.startswith("done")] == [f"done {number}" for number in range(count)]
    reopened = og.connect(place / "g")
    assert sorted(tag.name for tag in reopened.tags()) == sorted(f"v{number}" for number in range(count))
    assert names(reopened, kind="Team") == names(graph, kind="Team") == sorted(["red", *(f"t{n}" for n in range(count))])
    commits = {commit.graph_commit_id for commit in reopened.commits()}
    assert len(commits) == 2 + count
    for tag in reopened.tags():
        assert tag.graph_commit_id in commits
        assert rows(reopened, commit=tag.name)["Person"]
    assert_settled(reopened)
