"""The workloads of the query benchmark ask the same in every language: here ours and SQL, without measuring anything."""

from pathlib import Path

import pytest

from bench.peers import OURS, SYSTEMS, Peer, normalised
from bench.queries import GROUPS
from bench.social import Size, tables
from bench.workloads import Workload

pytestmark = pytest.mark.slow

SIZE = Size(persons=300, follows_each=5)
WORKLOADS = [workload for group in GROUPS for workload in group.workloads]


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Peer]:
    directory: Path = tmp_path_factory.mktemp("social")
    return {name: SYSTEMS[name].open(SIZE, directory) for name in (OURS, "duckdb", "datafusion")}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_answers_agree(workload: Workload, peers: dict[str, Peer]) -> None:
    parameters = workload.parameters(1, SIZE.persons)
    answers = {name: normalised(peer.run(workload, parameters)) for name, peer in peers.items()}
    assert answers[OURS] == answers["duckdb"] == answers["datafusion"]


def test_the_data_is_the_same_on_every_run_and_links_no_pair_twice() -> None:
    first, second = tables(SIZE), tables(SIZE)
    assert first == second
    pairs = list(zip(first["Follows"]["src"].to_pylist(), first["Follows"]["dst"].to_pylist(), strict=True))
    assert len(pairs) == len(set(pairs)) == SIZE.persons * SIZE.follows_each
    assert all(src != dst for src, dst in pairs)
