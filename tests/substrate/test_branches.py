"""Branches of a table: names, numbering, isolation, deletion and what remains of interrupted work."""

import pickle
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lance
import pytest
from lance.dataset import LanceOperation

from tests.substrate.tables import (
    Stage,
    appending,
    branch,
    column,
    commit,
    contents,
    create,
    deleting,
    head,
    indexing,
    keys,
    merging,
    overwriting,
    rows,
    session,
    transaction,
)

IN_THE_WAY = "Clone operation should not enter build_manifest"


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    """The keys a and b, one fragment each; version 3."""
    return create(tmp_path / "t", rows(a=1), rows(b=2))


def names(table: lance.LanceDataset) -> set[str]:
    return set(head(table).branches.list())


# Numbering and isolation.


def test_a_branch_begins_at_its_parents_version_and_counts_on_alone(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    assert (fork.version, contents(fork)) == (table.version, contents(table))

    commit(table, appending(table, rows(m=1)))
    fork = commit(fork, appending(fork, rows(d=1)))
    fork = commit(fork, appending(fork, rows(e=1)))

    assert (fork.version, contents(fork)) == (5, {"a": 1, "b": 2, "d": 1, "e": 1})
    assert (head(table).version, contents(head(table))) == (4, {"a": 1, "b": 2, "m": 1})


def test_a_branch_can_begin_at_an_older_version_or_on_another_branch(table: lance.LanceDataset) -> None:
    older = table.create_branch("older", 2)
    assert (older.version, contents(older)) == (2, {"a": 1})
    commit(older, appending(older, rows(x=1)))

    nested = head(table).create_branch("nested", ("older", 3))

    assert (nested.version, contents(nested)) == (3, {"a": 1, "x": 1})
    assert head(table).branches.list()["nested"]["parent_branch"] == "older"
    assert head(table).branches.list()["older"]["parent_version"] == 2


def test_the_versions_before_the_fork_are_not_versions_of_the_branch(table: lance.LanceDataset) -> None:
    table.create_branch("dev")

    assert contents(head(table).checkout_version(2)) == {"a": 1}
    with pytest.raises(OSError, match="was not found"):
        branch(table, "dev", 2)


def test_a_fork_copies_no_data(table: lance.LanceDataset) -> None:
    table.create_branch("dev")

    tree = Path(table.uri) / "tree" / "dev"
    assert {path.name for path in tree.iterdir()} == {"_versions", "_transactions"}


def test_a_fork_keeps_row_ids_and_row_versions(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")

    for name in ("_rowid", "_row_created_at_version", "_row_last_updated_at_version"):
        assert column(fork, name) == column(table, name)
    fork = commit(fork, merging(fork, rows(a=9, x=1)))
    assert column(fork, "_row_created_at_version") == {"a": 2, "b": 3, "x": 4}
    assert column(fork, "_row_last_updated_at_version") == {"a": 4, "b": 3, "x": 4}
    assert fork.has_stable_row_ids


def test_a_fork_keeps_the_primary_key_and_the_indices(table: lance.LanceDataset) -> None:
    table.create_scalar_index("n", "BTREE", name="by_n")

    fork = head(table).create_branch("dev")

    assert fork.schema.equals(table.schema, check_metadata=True)
    assert [index.name for index in fork.describe_indices()] == ["by_n"]
    assert fork.to_table(filter="n = 2")["id"].to_pylist() == ["b"]


def test_two_branches_may_give_out_the_same_row_id(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    fork = commit(fork, appending(fork, rows(x=1)))
    main = commit(table, appending(table, rows(y=1)))

    assert column(fork, "_rowid")["x"] == column(main, "_rowid")["y"]


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (lambda fork: appending(fork, rows(x=1)), {"a": 1, "b": 2, "x": 1}),
        (lambda fork: merging(fork, rows(a=9, x=1)), {"a": 9, "b": 2, "x": 1}),
        (lambda fork: deleting(fork, "id = 'a'"), {"b": 2}),
        (lambda fork: overwriting(fork, rows(x=1)), {"x": 1}),
    ],
    ids=["append", "merge", "delete", "overwrite"],
)
def test_a_write_staged_on_a_fork_and_committed_there_is_readable(
    table: lance.LanceDataset, stage: Stage, expected: dict[str, int]
) -> None:
    fork = table.create_branch("dev")

    fork = commit(fork, stage(fork))

    assert contents(fork) == contents(branch(table, "dev")) == expected
    assert contents(head(table)) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "stage",
    [
        lambda table: appending(table, rows(x=1)),
        lambda table: merging(table, rows(a=9, x=1)),
        lambda table: overwriting(table, rows(x=1)),
    ],
    ids=["append", "merge", "overwrite"],
)
def test_a_write_staged_on_the_parent_and_committed_on_the_fork_makes_the_fork_unreadable(
    table: lance.LanceDataset, stage: Stage
) -> None:
    staged = stage(table)
    fork = table.create_branch("dev")

    fork = commit(fork, staged)

    with pytest.raises((OSError, ValueError), match=r"Not found: .*/tree/dev/data/"):
        fork.to_table()
    assert fork.count_rows() > 0  # the count comes from the version itself and tells nothing


def test_a_delete_staged_on_the_parent_and_committed_on_the_fork_makes_the_fork_unreadable(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1, b=2))
    staged = deleting(table, "id = 'a'")
    fork = table.create_branch("dev")

    fork = commit(fork, staged)

    with pytest.raises((OSError, ValueError), match=r"Not found: .*/tree/dev/_deletions/"):
        fork.to_table()


def test_an_index_built_on_the_parent_and_committed_on_the_fork_breaks_searches_of_the_fork(
    table: lance.LanceDataset,
) -> None:
    staged = indexing(table)
    fork = table.create_branch("dev")

    fork = commit(fork, staged)

    with pytest.raises((OSError, ValueError), match=r"Not found: .*/tree/dev/_indices/"):
        fork.to_table(filter="n = 1")


def test_transactions_of_a_branch_carry_uuid_and_properties(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    staged = appending(fork, rows(x=1))
    staged.transaction_properties = {"omnigraph.operation_id": "01J"}

    fork = commit(fork, staged)

    found = transaction(branch(table, "dev"), fork.version)
    assert (found.uuid, found.transaction_properties) == (staged.uuid, {"omnigraph.operation_id": "01J"})


def test_the_fork_itself_is_a_transaction_with_a_uuid_of_its_own(table: lance.LanceDataset) -> None:
    first = transaction(table.create_branch("dev"))
    assert isinstance(first.operation, LanceOperation.Clone)
    head(table).branches.delete("dev")

    second = transaction(head(table).create_branch("dev"))

    assert len({transaction(table).uuid, first.uuid, second.uuid}) == 3


def test_a_shared_session_never_mixes_up_two_branches_of_one_name(table: lance.LanceDataset) -> None:
    caches = session()
    shared = lance.dataset(table.uri, session=caches)
    place = f"{table.uri}/tree/dev"
    for key in ("x", "y"):
        fork = head(table).create_branch("dev")
        commit(fork, appending(fork, rows(**{key: 1})))

        assert keys(lance.dataset(place, version=4, session=caches)) == ["a", "b", key]
        assert keys(shared.checkout_version(("dev", 4))) == ["a", "b", key]
        head(table).branches.delete("dev")


def test_the_head_row_is_guarded_on_a_branch_as_on_main(table: lance.LanceDataset) -> None:
    table.create_branch("dev")
    first, second = branch(table, "dev"), branch(table, "dev")

    def publish(handle: lance.LanceDataset, value: int) -> None:
        merge = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.conflict_retries(0).use_index(False).execute(rows(a=value, **{f"new{value}": 1}))

    publish(first, 10)
    with pytest.raises(OSError, match=r"^Too many concurrent writers"):
        publish(second, 20)
    assert contents(branch(table, "dev")) == {"a": 10, "b": 2, "new10": 1}
    assert contents(head(table)) == {"a": 1, "b": 2}


# Handles.


def test_a_branch_opens_by_its_tree_or_by_checkout(table: lance.LanceDataset) -> None:
    fork = table.create_branch("team/dev")
    commit(fork, appending(fork, rows(x=1)))

    tree = f"{table.uri}/tree/team/dev"
    assert keys(lance.dataset(tree)) == keys(branch(table, "team/dev")) == ["a", "b", "x"]
    assert keys(lance.dataset(tree, version=3)) == keys(branch(table, "team/dev", 3)) == ["a", "b"]


def test_a_branch_cannot_be_named_in_the_version_to_open(table: lance.LanceDataset) -> None:
    table.create_branch("dev")

    with pytest.raises(OSError, match="version must be an integer or a string"):
        lance.dataset(table.uri, version=("dev", 3))  # type: ignore[arg-type]


def test_a_checked_out_branch_names_the_root_as_its_place(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")

    assert fork.uri == f"{table.uri}/tree/dev"
    assert branch(table, "dev").uri == table.uri
    assert lance.write_dataset(rows(x=1), branch(table, "dev"), mode="append").uri == f"{table.uri}/tree/dev"


def test_a_pickled_handle_opened_by_its_tree_keeps_branch_and_version(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    fork = commit(fork, appending(fork, rows(x=1)))
    commit(fork, appending(fork, rows(y=1)))

    again = pickle.loads(pickle.dumps(lance.dataset(f"{table.uri}/tree/dev", version=fork.version)))

    assert (again.version, keys(again)) == (fork.version, ["a", "b", "x"])


def test_a_pickled_handle_of_a_checked_out_branch_loses_its_data(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    fork = commit(fork, appending(fork, rows(x=1)))

    again = pickle.loads(pickle.dumps(branch(table, "dev", fork.version)))

    with pytest.raises((OSError, ValueError), match=r"[Nn]ot found"):
        again.to_table()


def test_opening_a_missing_branch_is_a_value_error(table: lance.LanceDataset) -> None:
    with pytest.raises(ValueError, match=r"[Nn]ot found"):
        branch(table, "absent")
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(f"{table.uri}/tree/absent")


# Names.


@pytest.mark.parametrize("name", ["dev", "a.b-c_d", "team/dev/2", "größe", "__run__1"])
def test_a_name_that_is_accepted(table: lance.LanceDataset, name: str) -> None:
    fork = table.create_branch(name)

    assert keys(commit(fork, appending(fork, rows(x=1)))) == ["a", "b", "x"]
    assert names(table) == {name}
    head(table).branches.delete(name)
    assert names(table) == set()


@pytest.mark.parametrize("name", ["", "main", "a b", "a..b", "a.lock", "/a", "a/", "a//b", "a%b", "a$b", "a\\b"])
def test_a_name_that_is_refused(table: lance.LanceDataset, name: str) -> None:
    with pytest.raises(OSError, match="Ref is invalid"):
        table.create_branch(name)


def test_a_slash_in_a_name_is_encoded_in_the_reference_and_nested_in_the_tree(table: lance.LanceDataset) -> None:
    table.create_branch("team/dev")

    root = Path(table.uri)
    assert [path.name for path in (root / "_refs" / "branches").iterdir()] == ["team%2Fdev.json"]
    assert (root / "tree" / "team" / "dev" / "_versions").is_dir()


# Creation and deletion.


def test_creating_a_branch_that_exists_fails_with_an_internal_error(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    commit(fork, appending(fork, rows(x=1)))

    with pytest.raises(OSError, match=IN_THE_WAY):
        head(table).create_branch("dev")
    assert keys(branch(table, "dev")) == ["a", "b", "x"]


def test_deleting_a_missing_branch_is_a_value_error(table: lance.LanceDataset) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        table.branches.delete("absent")


def test_a_deleted_branch_can_be_created_again_and_starts_clean(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    commit(fork, appending(fork, rows(x=1)))
    head(table).branches.delete("dev")
    assert not (Path(table.uri) / "tree" / "dev").exists()

    again = head(table).create_branch("dev")

    assert (again.version, keys(again)) == (3, ["a", "b"])


def test_a_branch_with_a_child_cannot_be_deleted(table: lance.LanceDataset) -> None:
    table.create_branch("dev").create_branch("child")

    with pytest.raises(OSError, match="Ref conflict error"):
        head(table).branches.delete("dev")
    head(table).branches.delete("child")
    head(table).branches.delete("dev")
    assert names(table) == set()


def test_a_branch_with_a_tag_cannot_be_deleted(table: lance.LanceDataset) -> None:
    table.create_branch("dev")
    head(table).tags.create("kept", ("dev", 3))

    with pytest.raises(OSError, match="Ref conflict error"):
        head(table).branches.delete("dev")


def test_a_tree_without_its_reference_blocks_the_name(table: lance.LanceDataset) -> None:
    table.create_branch("dev")
    (Path(table.uri) / "_refs" / "branches" / "dev.json").unlink()

    assert names(table) == set()
    with pytest.raises(ValueError, match="does not exist"):
        head(table).branches.delete("dev")
    with pytest.raises(OSError, match=IN_THE_WAY):
        head(table).create_branch("dev")


def test_removing_the_tree_of_a_branch_frees_its_name(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    commit(fork, appending(fork, rows(x=1)))
    (Path(table.uri) / "_refs" / "branches" / "dev.json").unlink()

    shutil.rmtree(Path(table.uri) / "tree" / "dev")

    again = head(table).create_branch("dev")
    assert (again.version, keys(again)) == (3, ["a", "b"])
    assert keys(head(table)) == ["a", "b"]


def test_the_files_of_a_tree_can_be_removed_through_the_table(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")
    commit(fork, appending(fork, rows(x=1)))
    (Path(table.uri) / "_refs" / "branches" / "dev.json").unlink()

    handle: Any = head(table)
    files = handle.new_file_session()
    for path in [path for path in files.list() if path.startswith("tree/dev/")]:
        files.delete_file(path)

    assert keys(head(table).create_branch("dev")) == ["a", "b"]


def test_a_reference_without_its_tree_is_removed_by_a_plain_delete(table: lance.LanceDataset) -> None:
    table.create_branch("dev")
    shutil.rmtree(Path(table.uri) / "tree" / "dev")
    assert names(table) == {"dev"}

    head(table).branches.delete("dev")

    assert names(table) == set()
    assert keys(head(table).create_branch("dev")) == ["a", "b"]


def test_deleting_a_branch_that_is_the_path_of_another_leaves_a_tree_that_blocks_the_name(
    table: lance.LanceDataset,
) -> None:
    table.create_branch("dev")
    head(table).create_branch("dev/inner")

    head(table).branches.delete("dev")

    assert names(table) == {"dev/inner"}
    assert keys(branch(table, "dev/inner")) == ["a", "b"]
    with pytest.raises(OSError, match=IN_THE_WAY):
        head(table).create_branch("dev")


def test_a_tag_names_a_version_and_opens_it(table: lance.LanceDataset) -> None:
    table.tags.create("first", 2)

    assert contents(lance.dataset(table.uri, version="first")) == {"a": 1}


# References.


@pytest.mark.parametrize("name", ["dev", "a.b-c_d/e/f", "é/日本", "__schema_apply_lock__"])
def test_the_reference_of_a_branch_is_one_file_named_after_it(table: lance.LanceDataset, name: str) -> None:
    """So one look says whether a branch exists, and what the file says tells two branches of one name apart."""
    reference = Path(table.uri) / "_refs" / "branches" / f"{quote(name, safe='')}.json"
    assert not reference.exists()

    table.create_branch(name)
    first = reference.read_bytes()
    head(table).branches.delete(name)
    assert not reference.exists()

    head(table).create_branch(name)
    assert reference.read_bytes() != first
    assert names(table) == {name}


def test_a_tree_without_its_reference_is_no_branch(table: lance.LanceDataset) -> None:
    table.create_branch("dev")
    (Path(table.uri) / "_refs" / "branches" / "dev.json").unlink()

    assert names(table) == set()
    assert lance.dataset(f"{table.uri}/tree/dev").version == table.version, "the files can be opened all the same"
