"""Restoring an older version: what it does to the table, to writers at work and to writers that come late."""

from pathlib import Path
from uuid import uuid4

import lance
import pytest
from lance.commit import CommitConflictError
from lance.dataset import LanceOperation, Transaction

from tests.substrate.tables import (
    Stage,
    appending,
    branch,
    column,
    commit,
    configuring,
    contents,
    create,
    deleting,
    head,
    indexing,
    merging,
    operation,
    overwriting,
    projecting,
    restore,
    restoring,
    rows,
    transaction,
    widening,
)

ROW_CHANGES: dict[str, Stage] = {
    "append": lambda table: appending(table, rows(x=1)),
    "update": lambda table: merging(table, rows(a=9)),
    "delete": lambda table: deleting(table, "id = 'a'"),
}
FENCED: dict[str, Stage] = {
    **ROW_CHANGES,
    "overwrite": lambda table: overwriting(table, rows(x=1)),
    "index": indexing,
    "project": projecting,
    "add-column": widening,
}


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    """The keys a and b in one fragment, c in another; version 3."""
    return create(tmp_path / "t", rows(a=1, b=2), rows(c=3))


def test_a_restore_adds_one_version_with_the_old_content(table: lance.LanceDataset) -> None:
    newest = commit(table, overwriting(table, rows(x=1)))

    restore(newest.checkout_version(2))

    assert (head(table).version, contents(head(table))) == (5, {"a": 1, "b": 2})
    assert isinstance(operation(head(table)), LanceOperation.Restore)
    assert contents(head(table).checkout_version(4)) == {"x": 1}


def test_a_restore_moves_the_handle_it_was_called_on_to_the_new_version(table: lance.LanceDataset) -> None:
    old = table.checkout_version(2)

    restore(old)

    assert (old.version, contents(old)) == (4, {"a": 1, "b": 2})


def test_a_restore_brings_back_schema_and_indices(table: lance.LanceDataset) -> None:
    table = commit(table, indexing(table))
    wide = commit(table, widening(table))
    emptied = commit(wide, overwriting(wide, rows()))
    assert emptied.describe_indices() == []

    restore(table)

    assert head(table).schema.equals(table.schema, check_metadata=True)
    assert [index.name for index in head(table).describe_indices()] == ["n_index"]
    assert head(table).to_table(filter="n = 3")["id"].to_pylist() == ["c"]


def test_a_restore_can_be_committed_with_a_uuid_and_properties(table: lance.LanceDataset) -> None:
    uuid = str(uuid4())
    intent = Transaction(table.version, LanceOperation.Restore(2), uuid, {"omnigraph.operation_id": "01J"})

    restored = commit(table, intent)

    assert (restored.version, contents(restored)) == (4, {"a": 1, "b": 2})
    found = transaction(restored)
    assert (found.uuid, found.transaction_properties) == (uuid, {"omnigraph.operation_id": "01J"})


def test_a_restore_on_a_branch_leaves_main_alone(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    fork = commit(fork, appending(fork, rows(x=1)))
    commit(fork, appending(fork, rows(y=1)))

    restore(branch(table, "dev", fork.version))

    restored = branch(table, "dev")
    assert (restored.version, contents(restored)) == (6, {"a": 1, "b": 2, "c": 3, "x": 1})
    assert (head(table).version, contents(head(table))) == (3, {"a": 1, "b": 2, "c": 3})


def test_a_branch_can_be_restored_to_its_fork(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    commit(fork, appending(fork, rows(x=1)))

    restore(branch(table, "dev", table.version))

    assert (branch(table, "dev").version, contents(branch(table, "dev"))) == (5, {"a": 1, "b": 2, "c": 3})
    assert head(table).version == 3


def test_a_branch_cannot_be_restored_to_a_version_before_its_fork(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    fork = commit(fork, appending(fork, rows(x=1)))

    with pytest.raises(OSError, match=r"Not found: .*/tree/dev/_versions/2\.manifest"):
        commit(fork, restoring(fork, 2))
    assert branch(table, "dev").version == 4


@pytest.mark.parametrize("kind", ROW_CHANGES)
def test_a_restore_silently_undoes_what_a_writer_committed_meanwhile(table: lance.LanceDataset, kind: str) -> None:
    staged = restoring(table, table.version)
    commit(table, ROW_CHANGES[kind](table))

    restored = commit(table, staged)

    assert (restored.version, contents(restored)) == (5, {"a": 1, "b": 2, "c": 3})


@pytest.mark.parametrize("kind", FENCED)
def test_after_a_restore_what_was_staged_on_the_version_before_it_is_refused(table: lance.LanceDataset, kind: str) -> None:
    staged = FENCED[kind](table)
    restore(table.checkout_version(2))

    with pytest.raises(CommitConflictError):
        commit(table, staged)
    assert (head(table).version, contents(head(table))) == (4, {"a": 1, "b": 2})


@pytest.mark.parametrize("kind", FENCED)
def test_restoring_the_newest_version_fences_off_what_was_staged_on_it(table: lance.LanceDataset, kind: str) -> None:
    staged = FENCED[kind](table)
    restore(head(table))

    with pytest.raises(CommitConflictError):
        commit(table, staged)
    with pytest.raises(CommitConflictError):
        commit(head(table), staged)
    assert (head(table).version, contents(head(table))) == (4, {"a": 1, "b": 2, "c": 3})


@pytest.mark.parametrize("kind", FENCED)
def test_a_restore_is_a_fence_on_a_branch_too(table: lance.LanceDataset, kind: str) -> None:
    fork = table.create_branch("dev")
    staged = FENCED[kind](fork)
    restore(branch(table, "dev"))

    with pytest.raises(CommitConflictError):
        commit(fork, staged)
    assert (branch(table, "dev").version, contents(branch(table, "dev"))) == (4, {"a": 1, "b": 2, "c": 3})


@pytest.mark.parametrize("kind", sorted(FENCED.keys() - {"overwrite"}))
def test_the_fence_holds_with_retries(table: lance.LanceDataset, kind: str) -> None:
    staged = FENCED[kind](table)
    restore(head(table))

    with pytest.raises(CommitConflictError):
        commit(table, staged, retries=20)


def test_an_overwrite_with_retries_passes_the_fence(table: lance.LanceDataset) -> None:
    staged = overwriting(table, rows(x=1))
    restore(head(table))

    landed = commit(table, staged, retries=20)

    assert (landed.version, contents(landed)) == (5, {"x": 1})


def test_the_fence_still_holds_after_further_commits(table: lance.LanceDataset) -> None:
    staged = appending(table, rows(x=1))
    restore(head(table))
    commit(head(table), appending(head(table), rows(y=1)))

    with pytest.raises(CommitConflictError):
        commit(table, staged)
    assert contents(head(table)) == {"a": 1, "b": 2, "c": 3, "y": 1}


def test_a_direct_merge_from_before_a_restore_is_refused(table: lance.LanceDataset) -> None:
    stale = lance.dataset(table.uri)
    restore(head(table))

    merge = stale.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(OSError, match=r"^Incompatible transaction"):
        merge.conflict_retries(0).use_index(False).execute(rows(x=1))
    assert "x" not in contents(head(table))


def test_a_setting_passes_the_fence(table: lance.LanceDataset) -> None:
    staged = configuring(table, key="1")
    restore(head(table))

    assert commit(table, staged).config() == {"key": "1"}


def test_a_further_restore_passes_the_fence(table: lance.LanceDataset) -> None:
    staged = restoring(table, 2)
    restore(head(table))

    restored = commit(table, staged)

    assert (restored.version, contents(restored)) == (5, {"a": 1, "b": 2})


def test_what_is_staged_after_a_restore_lands(table: lance.LanceDataset) -> None:
    restore(table.checkout_version(2))
    now = head(table)

    landed = commit(now, merging(now, rows(a=9, x=1)))

    assert (landed.version, contents(landed)) == (5, {"a": 9, "b": 2, "x": 1})
    assert column(landed, "_row_last_updated_at_version") == {"a": 5, "b": 2, "x": 5}
