"""What the processes of a race do. They are started with `spawn`, so their code is imported from here."""

import os
import random
import signal
import time
from collections.abc import Callable
from threading import Barrier

import lance
from lance.commit import CommitConflictError

from tests.substrate.tables import contents, creating, overwriting, rows

HEAD = "head"
LOST = "Too many concurrent writers"
PATIENCE = 100

_start: list[Barrier] = []


def join(barrier: Barrier) -> None:
    """Run once in every process."""
    _start.append(barrier)


def together() -> None:
    """Wait for all other processes."""
    _start[0].wait(PATIENCE)


def step_back() -> None:
    """Wait a moment after a lost race, as any writer would: so that the whole ends in good time."""
    time.sleep(random.uniform(0, 0.05))


def publish(table: lance.LanceDataset, **values: int) -> bool:
    """Whether a merge from the handle's version was first."""
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    try:
        merge.conflict_retries(0).use_index(False).execute(rows(**values))
    except OSError as error:
        if not str(error).startswith(LOST):
            raise
        return False
    return True


def _count_up(uri: str, times: int, own: Callable[[int], str]) -> int:
    """Raise the head row by one, together with a row of one's own, until that has worked so many times."""
    together()
    lost = 0
    for turn in range(times):
        while True:
            table = lance.dataset(uri)
            value = contents(table)[HEAD]
            assert value is not None
            if publish(table, **{HEAD: value + 1, own(turn): turn + 1}):
                break
            lost += 1
            step_back()
    return lost


def count_up_the_head_row(uri: str, worker: int, times: int) -> int:
    """Each publish changes the head row and the one row of this process."""
    return _count_up(uri, times, lambda _: f"w{worker}")


def count_up_the_head_row_with_new_rows(uri: str, worker: int, times: int) -> int:
    """Each publish changes the head row and inserts a row, as publishes of the store do."""
    return _count_up(uri, times, lambda turn: f"w{worker}-{turn}")


def count_up_by_overwriting(uri: str, _worker: int, times: int) -> int:
    """Raise the head row by one, by replacing the whole table."""
    together()
    lost = 0
    for _ in range(times):
        while True:
            table = lance.dataset(uri)
            value = contents(table)[HEAD]
            assert value is not None
            try:
                lance.LanceDataset.commit(table, overwriting(table, rows(**{HEAD: value + 1})), max_retries=0)
                break
            except CommitConflictError:
                lost += 1
                step_back()
    return lost


def count_up_by_updating(uri: str, _worker: int, times: int) -> int:
    together()
    for _ in range(times):
        lance.dataset(uri).update({"n": "n + 1"}, where=f"id = '{HEAD}'", conflict_retries=1000)
    return 0


def append(uri: str, worker: int, times: int) -> int:
    together()
    for turn in range(times):
        lance.write_dataset(rows(**{f"w{worker}-{turn}": worker}), uri, mode="append")
    return 0


def insert_the_same_keys(uri: str, worker: int, times: int) -> int:
    """How often this process was the one to insert the key of a round; all start a round from one version."""
    won = 0
    for turn in range(times):
        together()
        table = lance.dataset(uri)
        together()
        won += publish(table, **{f"key{turn}": worker})
    return won


def change_rows_of_ones_own(uri: str, worker: int, times: int) -> int:
    """How often a merge into a row of one's own landed; all start a round from one version."""
    won = 0
    for turn in range(times):
        together()
        table = lance.dataset(uri)
        together()
        won += publish(table, **{f"own{worker}": turn})
    return won


def change_rows_of_ones_own_and_the_head_row(uri: str, worker: int, times: int) -> int:
    won = 0
    for turn in range(times):
        together()
        table = lance.dataset(uri)
        together()
        won += publish(table, **{HEAD: turn, f"own{worker}": turn})
    return won


def create_the_same_branches(uri: str, _worker: int, times: int) -> int:
    won = 0
    for turn in range(times):
        table = lance.dataset(uri)
        together()
        try:
            table.create_branch(f"branch{turn}")
            won += 1
        except OSError:
            pass
    return won


def create_the_same_tables(uri: str, worker: int, times: int) -> int:
    """How often this process created the table of a round, by a staged creation committed without retries."""
    won = 0
    for turn in range(times):
        place = f"{uri}-{turn}"
        together()
        try:
            lance.LanceDataset.commit(place, creating(place, rows(**{f"w{worker}": 1})), max_retries=0)
            won += 1
        except OSError:
            pass
    return won


def commit_and_die(uri: str) -> None:
    lance.write_dataset(rows(x=1), uri, mode="append")
    os.kill(os.getpid(), signal.SIGKILL)
