"""Real processes that write to one table at the same moment."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import lance
import pytest

from tests.substrate import workers
from tests.substrate.tables import appending, branch, commit, contents, create, head, keys, rows

PROCESSES = 8
TIMES = 15
SPAWN = multiprocessing.get_context("spawn")  # lance says of itself that it does not survive a fork

Work = Callable[[str, int, int], int]
Race = Callable[[str, Work, int], list[int]]


@pytest.fixture(scope="module")
def race() -> Iterator[Race]:
    """Runs a function in all processes at once and returns what each of them returned."""
    barrier = SPAWN.Barrier(PROCESSES)
    with ProcessPoolExecutor(PROCESSES, SPAWN, initializer=workers.join, initargs=(barrier,)) as pool:

        def run(uri: str, work: Work, times: int) -> list[int]:
            # Each waits for the others within its work, so that every process gets exactly one share.
            shares = [pool.submit(work, uri, worker, times) for worker in range(PROCESSES)]
            return [share.result(timeout=300) for share in shares]

        yield run


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    """One head row with the value 0; version 2."""
    return create(tmp_path / "t", rows(**{workers.HEAD: 0}))


def own_keys(times: int) -> set[str]:
    return {f"w{worker}-{turn}" for worker in range(PROCESSES) for turn in range(times)}


def test_every_publish_through_the_head_row_counts_once(table: lance.LanceDataset, race: Race) -> None:
    race(table.uri, workers.count_up_the_head_row, TIMES)

    own = {f"w{worker}": TIMES for worker in range(PROCESSES)}
    assert contents(head(table)) == {workers.HEAD: PROCESSES * TIMES, **own}
    assert head(table).version == table.version + PROCESSES * TIMES


@pytest.mark.slow
@pytest.mark.parametrize("repeat", range(5))
def test_every_publish_that_inserts_rows_beside_the_head_row_counts_once(tmp_path: Path, race: Race, repeat: int) -> None:
    table = create(tmp_path / f"t{repeat}", rows(**{workers.HEAD: 0}))

    race(table.uri, workers.count_up_the_head_row_with_new_rows, TIMES)

    final = contents(head(table))
    assert final.pop(workers.HEAD) == PROCESSES * TIMES
    assert final.keys() == own_keys(TIMES)
    assert head(table).version == table.version + PROCESSES * TIMES


def test_one_process_inserts_a_key_that_all_insert_from_one_version(table: lance.LanceDataset, race: Race) -> None:
    won = race(table.uri, workers.insert_the_same_keys, TIMES)

    assert sum(won) == TIMES
    assert contents(head(table)).keys() == {workers.HEAD, *(f"key{turn}" for turn in range(TIMES))}


def test_publishes_of_different_rows_from_one_version_can_all_land(table: lance.LanceDataset, race: Race) -> None:
    won = race(table.uri, workers.change_rows_of_ones_own, 1)

    assert sum(won) == PROCESSES
    assert contents(head(table)).keys() == {workers.HEAD, *(f"own{worker}" for worker in range(PROCESSES))}


def test_of_publishes_that_share_the_head_row_one_lands_from_one_version(table: lance.LanceDataset, race: Race) -> None:
    won = race(table.uri, workers.change_rows_of_ones_own_and_the_head_row, TIMES)

    assert sum(won) == TIMES
    assert head(table).version == table.version + TIMES


def test_no_append_of_many_processes_is_lost(table: lance.LanceDataset, race: Race) -> None:
    race(table.uri, workers.append, TIMES)

    assert contents(head(table)).keys() == {workers.HEAD} | own_keys(TIMES)
    assert head(table).version == table.version + PROCESSES * TIMES


def test_one_process_creates_a_branch_that_all_create(table: lance.LanceDataset, race: Race) -> None:
    won = race(table.uri, workers.create_the_same_branches, TIMES)

    assert sum(won) == TIMES
    assert set(head(table).branches.list()) == {f"branch{turn}" for turn in range(TIMES)}
    for turn in range(TIMES):
        fork = branch(table, f"branch{turn}")
        assert keys(commit(fork, appending(fork, rows(x=1)))) == [workers.HEAD, "x"]


def test_one_process_creates_a_table_that_all_create(tmp_path: Path, race: Race) -> None:
    uri = str(tmp_path / "t")

    won = race(uri, workers.create_the_same_tables, TIMES)

    assert sum(won) == TIMES
    assert [lance.dataset(f"{uri}-{turn}").count_rows() for turn in range(TIMES)] == [1] * TIMES


def test_every_overwrite_without_retries_counts_once(table: lance.LanceDataset, race: Race) -> None:
    race(table.uri, workers.count_up_by_overwriting, TIMES)

    assert contents(head(table)) == {workers.HEAD: PROCESSES * TIMES}
    assert head(table).version == table.version + PROCESSES * TIMES


def test_every_update_with_retries_counts_once(table: lance.LanceDataset, race: Race) -> None:
    race(table.uri, workers.count_up_by_updating, TIMES)

    assert contents(head(table)) == {workers.HEAD: PROCESSES * TIMES}


def test_a_commit_survives_the_death_of_its_process(table: lance.LanceDataset) -> None:
    process = SPAWN.Process(target=workers.commit_and_die, args=(table.uri,))
    process.start()
    process.join(timeout=60)

    assert process.exitcode == -signal.SIGKILL
    assert contents(head(table)) == {workers.HEAD: 0, "x": 1}


def test_two_publishes_of_different_rows_both_land_although_neither_saw_the_other(table: lance.LanceDataset) -> None:
    first, second = lance.dataset(table.uri), lance.dataset(table.uri)

    assert workers.publish(first, left=1)
    assert workers.publish(second, right=1)


def test_two_publishes_of_different_existing_rows_both_land(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(left=0, right=0))
    first, second = lance.dataset(table.uri), lance.dataset(table.uri)

    assert workers.publish(first, left=1)
    assert workers.publish(second, right=1)
    assert contents(head(table)) == {"left": 1, "right": 1}


def test_two_publishes_that_share_the_head_row_do_not_both_land(table: lance.LanceDataset) -> None:
    first, second = lance.dataset(table.uri), lance.dataset(table.uri)

    assert workers.publish(first, left=1, **{workers.HEAD: 1})
    assert not workers.publish(second, right=1, **{workers.HEAD: 2})
    assert contents(head(table)) == {workers.HEAD: 1, "left": 1}
