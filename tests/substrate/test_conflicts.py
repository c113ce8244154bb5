"""What happens to a commit staged on a version that is no longer the newest.

Most tests commit two transactions staged on one version, one after the other: what happens to the second?
"""

from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from lance.commit import CommitConflictError
from lance.dataset import LanceOperation, Transaction

from tests.substrate.tables import (
    UNMARKED,
    Stage,
    appending,
    commit,
    commit_both,
    configuring,
    contents,
    create,
    deleting,
    head,
    indexing,
    keys,
    merging,
    overwriting,
    projecting,
    rows,
    widening,
)


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    """Two fragments: a and b in the first, c and d in the second; version 3."""
    return create(tmp_path / "t", rows(a=1, b=2), rows(c=3, d=4))


def upsert(handle: lance.LanceDataset, *, retries: int = 0, use_index: bool = False, **values: int) -> None:
    """A merge executed at once, as the manifest is published."""
    merge = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.conflict_retries(retries).use_index(use_index).execute(rows(**values))


def two_handles(table: lance.LanceDataset) -> tuple[lance.LanceDataset, lance.LanceDataset]:
    return lance.dataset(table.uri), lance.dataset(table.uri)


# Merges executed at once.


def test_inserting_one_new_key_twice_from_one_base_is_refused(table: lance.LanceDataset) -> None:
    first, second = two_handles(table)
    upsert(first, x=1)

    with pytest.raises(OSError, match=r"^Too many concurrent writers") as refused:
        upsert(second, x=2)

    assert not isinstance(refused.value, CommitConflictError)
    assert contents(head(table))["x"] == 1
    assert head(table).version == table.version + 1


def test_updating_one_row_twice_from_one_base_is_refused(table: lance.LanceDataset) -> None:
    first, second = two_handles(table)
    upsert(first, a=10)

    with pytest.raises(OSError, match=r"^Too many concurrent writers"):
        upsert(second, a=20)

    assert contents(head(table))["a"] == 10


def test_with_retries_the_second_merge_updates_what_the_first_inserted(table: lance.LanceDataset) -> None:
    first, second = two_handles(table)
    upsert(first, x=1)

    upsert(second, retries=10, x=2)

    assert contents(head(table))["x"] == 2


def test_without_a_primary_key_one_new_key_is_inserted_twice(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(UNMARKED, a=1), schema=UNMARKED)
    for handle in two_handles(table):
        upsert(handle, x=1)

    assert keys(head(table)) == ["a", "x", "x"]


def test_with_an_index_on_the_key_one_new_key_is_inserted_twice(table: lance.LanceDataset) -> None:
    table.create_scalar_index("id", "BTREE", name="by_id")
    for handle in two_handles(table):
        upsert(handle, use_index=True, x=1)

    assert keys(head(table)) == ["a", "b", "c", "d", "x", "x"]


def test_with_an_index_on_the_key_retries_do_not_help(table: lance.LanceDataset) -> None:
    table.create_scalar_index("id", "BTREE", name="by_id")
    for handle in two_handles(table):
        upsert(handle, use_index=True, retries=10, x=1)

    assert keys(head(table)) == ["a", "b", "c", "d", "x", "x"]


def test_with_an_index_on_the_key_that_is_not_used_the_second_insert_is_refused(table: lance.LanceDataset) -> None:
    table.create_scalar_index("id", "BTREE", name="by_id")
    first, second = two_handles(table)
    upsert(first, x=1)

    with pytest.raises(OSError, match=r"^Too many concurrent writers"):
        upsert(second, x=2)


def test_merges_of_different_new_keys_both_land(table: lance.LanceDataset) -> None:
    first, second = two_handles(table)
    upsert(first, x=1)
    upsert(second, y=2)

    assert contents(head(table)) == {"a": 1, "b": 2, "c": 3, "d": 4, "x": 1, "y": 2}


@pytest.mark.parametrize(
    "meanwhile",
    [lambda table: table.optimize.compact_files(), lambda table: commit(table, appending(table, rows(z=1)))],
    ids=["compaction", "append-of-another-key"],
)
def test_a_merge_behind_a_compaction_or_an_append_loses_like_any_other(
    table: lance.LanceDataset, meanwhile: Callable[[lance.LanceDataset], object]
) -> None:
    stale = lance.dataset(table.uri)
    meanwhile(head(table))

    with pytest.raises(OSError, match=r"^Too many concurrent writers"):
        upsert(stale, a=10, x=1)


def test_a_merge_behind_an_overwrite_is_refused_in_other_words(table: lance.LanceDataset) -> None:
    stale = lance.dataset(table.uri)
    commit(table, overwriting(table, rows(z=1)))

    with pytest.raises(OSError, match=r"^Incompatible transaction"):
        upsert(stale, a=10, x=1)


def test_a_merge_lands_behind_a_stamp(table: lance.LanceDataset) -> None:
    stale = lance.dataset(table.uri)
    head(table).update_schema_metadata({"stamp": "3"})

    upsert(stale, a=10, x=1)

    assert contents(head(table)) == {"a": 10, "b": 2, "c": 3, "d": 4, "x": 1}
    assert head(table).schema.metadata == {b"stamp": b"3"}


# Staged merges and appends.


def test_staged_inserts_of_one_new_key_both_land(table: lance.LanceDataset) -> None:
    landed = commit_both(table, merging(table, rows(x=1)), merging(table, rows(x=2)))

    assert keys(landed) == ["a", "b", "c", "d", "x", "x"]


def test_a_staged_insert_lands_behind_an_append_of_the_same_key(table: lance.LanceDataset) -> None:
    landed = commit_both(table, appending(table, rows(x=1)), merging(table, rows(x=2)))

    assert keys(landed) == ["a", "b", "c", "d", "x", "x"]


def test_a_staged_insert_lands_behind_a_direct_insert_of_the_same_key(table: lance.LanceDataset) -> None:
    staged = merging(table, rows(x=2))
    upsert(head(table), x=1)

    assert keys(commit(table, staged)) == ["a", "b", "c", "d", "x", "x"]


def test_a_stale_append_is_silently_rebased_to_a_later_version(table: lance.LanceDataset) -> None:
    landed = commit_both(table, appending(table, rows(x=1)), appending(table, rows(y=2)))

    assert landed.version == table.version + 2
    assert contents(landed) == {"a": 1, "b": 2, "c": 3, "d": 4, "x": 1, "y": 2}


def test_an_update_is_rebased_over_an_append(table: lance.LanceDataset) -> None:
    landed = commit_both(table, appending(table, rows(x=1)), merging(table, rows(a=10)))

    assert contents(landed) == {"a": 10, "b": 2, "c": 3, "d": 4, "x": 1}


def test_an_append_is_rebased_over_an_update(table: lance.LanceDataset) -> None:
    landed = commit_both(table, merging(table, rows(a=10)), appending(table, rows(x=1)))

    assert contents(landed) == {"a": 10, "b": 2, "c": 3, "d": 4, "x": 1}


def test_a_stale_update_of_the_same_row_is_refused(table: lance.LanceDataset) -> None:
    with pytest.raises(CommitConflictError, match="preempted by concurrent transaction"):
        commit_both(table, merging(table, rows(b=20)), merging(table, rows(b=30)))

    assert contents(head(table))["b"] == 20


def test_a_stale_staged_update_of_another_row_in_the_same_fragment_is_refused(table: lance.LanceDataset) -> None:
    with pytest.raises(CommitConflictError):
        commit_both(table, merging(table, rows(a=10)), merging(table, rows(b=20)))


def test_a_stale_update_in_another_fragment_is_silently_rebased(table: lance.LanceDataset) -> None:
    landed = commit_both(table, merging(table, rows(a=10)), merging(table, rows(c=30)))

    assert landed.version == table.version + 2
    assert contents(landed) == {"a": 10, "b": 2, "c": 30, "d": 4}


# Deletes.


def test_a_stale_delete_in_an_updated_fragment_is_refused(table: lance.LanceDataset) -> None:
    with pytest.raises(CommitConflictError):
        commit_both(table, merging(table, rows(a=10)), deleting(table, "id = 'b'"))


def test_a_stale_delete_in_a_fragment_that_lost_rows_is_refused(table: lance.LanceDataset) -> None:
    with pytest.raises(CommitConflictError):
        commit_both(table, deleting(table, "id = 'a'"), deleting(table, "id = 'b'"))


def test_a_stale_delete_in_another_fragment_is_silently_rebased(table: lance.LanceDataset) -> None:
    landed = commit_both(table, deleting(table, "id = 'a'"), deleting(table, "id = 'c'"))

    assert contents(landed) == {"b": 2, "d": 4}


# Overwrites.


@pytest.mark.parametrize(
    "stage",
    [
        lambda table: appending(table, rows(x=1)),
        lambda table: merging(table, rows(a=10)),
        lambda table: deleting(table, "id = 'a'"),
        indexing,
        projecting,
        widening,
    ],
    ids=["append", "merge", "delete", "index", "project", "add-column"],
)
def test_nothing_staged_lands_behind_an_overwrite(table: lance.LanceDataset, stage: Stage) -> None:
    staged = stage(table)
    commit(table, overwriting(table, rows(z=1)))

    for retries in (0, 20):
        with pytest.raises(CommitConflictError):
            commit(table, staged, retries)
    assert contents(head(table)) == {"z": 1}


@pytest.mark.parametrize(
    "stage",
    [
        lambda table: appending(table, rows(x=1)),
        lambda table: merging(table, rows(a=10)),
        lambda table: deleting(table, "id = 'a'"),
        lambda table: overwriting(table, rows(y=1)),
        indexing,
        lambda table: configuring(table, key="value"),
    ],
    ids=["append", "merge", "delete", "overwrite", "index", "config"],
)
def test_an_overwrite_without_retries_lands_on_the_version_it_was_staged_on_or_not_at_all(
    table: lance.LanceDataset, stage: Stage
) -> None:
    staged = overwriting(table, rows(z=1))
    commit(table, stage(table))

    with pytest.raises(CommitConflictError):
        commit(table, staged)
    assert "z" not in contents(head(table))


def test_an_overwrite_with_retries_silently_wins_over_an_append(table: lance.LanceDataset) -> None:
    staged = overwriting(table, rows(z=1))
    commit(table, appending(table, rows(x=1)))

    landed = commit(table, staged, retries=20)

    assert (landed.version, contents(landed)) == (table.version + 2, {"z": 1})


def test_an_overwrite_is_refused_behind_an_overwrite_even_with_retries(table: lance.LanceDataset) -> None:
    staged = overwriting(table, rows(z=1))
    commit(table, overwriting(table, rows(y=1)))

    with pytest.raises(CommitConflictError):
        commit(table, staged, retries=20)


# Indices, settings, schema changes.


def test_an_index_build_is_rebased_over_an_append(table: lance.LanceDataset) -> None:
    landed = commit_both(table, appending(table, rows(x=1)), indexing(table))

    assert landed.version == table.version + 2
    assert contents(landed)["x"] == 1
    assert landed.to_table(filter="n = 1")["id"].to_pylist() == ["a", "x"]


def test_an_index_build_is_rebased_over_an_update(table: lance.LanceDataset) -> None:
    landed = commit_both(table, merging(table, rows(a=10)), indexing(table))

    assert landed.to_table(filter="n = 1").num_rows == 0
    assert landed.to_table(filter="n = 10")["id"].to_pylist() == ["a"]


def test_an_append_is_rebased_over_an_index_build(table: lance.LanceDataset) -> None:
    landed = commit_both(table, indexing(table), appending(table, rows(x=1)))

    assert [index.name for index in landed.describe_indices()] == ["n_index"]
    assert landed.to_table(filter="n = 1")["id"].to_pylist() == ["a", "x"]


def test_two_index_builds_of_one_name_conflict(table: lance.LanceDataset) -> None:
    with pytest.raises(CommitConflictError):
        commit_both(table, indexing(table), indexing(table))


def test_two_index_builds_of_different_names_both_land(table: lance.LanceDataset) -> None:
    landed = commit_both(table, indexing(table, "one"), indexing(table, "two"))

    assert {index.name for index in landed.describe_indices()} == {"one", "two"}


def test_two_changes_of_one_setting_conflict(table: lance.LanceDataset) -> None:
    with pytest.raises(CommitConflictError, match="Incompatible"):
        commit_both(table, configuring(table, key="1"), configuring(table, key="2"))


def test_an_append_and_a_setting_do_not_conflict(table: lance.LanceDataset) -> None:
    landed = commit_both(table, configuring(table, key="1"), appending(table, rows(x=1)))
    assert landed.config() == {"key": "1"}

    landed = commit_both(landed, appending(landed, rows(y=1)), configuring(landed, key="2"))
    assert landed.config() == {"key": "2"}
    assert keys(landed) == ["a", "b", "c", "d", "x", "y"]


@pytest.mark.parametrize("reverse", [False, True], ids=["project-last", "project-first"])
@pytest.mark.parametrize(
    "stage",
    [lambda table: appending(table, rows(x=1)), lambda table: merging(table, rows(a=10))],
    ids=["append", "merge"],
)
def test_a_dropped_or_renamed_column_conflicts_with_row_changes(
    table: lance.LanceDataset, stage: Stage, reverse: bool
) -> None:
    first, second = stage(table), projecting(table)

    with pytest.raises(CommitConflictError):
        commit_both(table, second, first) if reverse else commit_both(table, first, second)


@pytest.mark.parametrize(
    "stage",
    [
        lambda table: appending(table, rows(x=1)),
        lambda table: merging(table, rows(a=10)),
        lambda table: deleting(table, "id = 'a'"),
    ],
    ids=["append", "merge", "delete"],
)
def test_an_added_column_is_refused_behind_row_changes(table: lance.LanceDataset, stage: Stage) -> None:
    first, second = stage(table), widening(table)

    with pytest.raises(CommitConflictError):
        commit_both(table, first, second)


def test_an_added_column_is_rebased_over_an_index_build_and_a_setting(table: lance.LanceDataset) -> None:
    staged = widening(table)
    commit(table, indexing(table))
    commit(head(table), configuring(head(table), key="1"))

    landed = commit(table, staged)

    assert landed.version == table.version + 3
    assert landed.schema.names == ["id", "n", "m"]


def test_a_conflicting_commit_changes_nothing(table: lance.LanceDataset) -> None:
    with pytest.raises(CommitConflictError):
        commit_both(table, merging(table, rows(b=20)), merging(table, rows(b=30)))

    assert head(table).version == table.version + 1


def test_the_handle_decides_nothing_and_the_read_version_everything(table: lance.LanceDataset) -> None:
    staged = merging(table, rows(b=30))
    commit(table, merging(table, rows(b=20)))

    with pytest.raises(CommitConflictError):
        commit(head(table), staged)


def test_a_read_version_moved_forward_by_hand_defeats_the_conflict_check(table: lance.LanceDataset) -> None:
    staged = overwriting(table, rows(z=1))
    newest = commit(table, appending(table, rows(x=1)))

    landed = commit(newest, Transaction(newest.version, staged.operation))

    assert contents(landed) == {"z": 1}
    assert isinstance(staged.operation, LanceOperation.Overwrite)
