"""What a look at the names of version files can tell."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from omnigraph_sql.storage.integrity import version_name


def test_versions_have_files_by_number_and_follow_one_another_without_a_gap(tmp_path: Path) -> None:
    place = tmp_path / "t"
    rows = pa.table({"id": ["a"]})
    table = lance.write_dataset(rows, place)
    for _ in range(3):
        table = lance.write_dataset(rows, place, mode="append")
    table.delete("id = 'nothing'")
    newest = lance.dataset(place).version

    assert [(place / version_name(each)).exists() for each in range(newest + 2)] == [False, *[True] * newest, False]


def test_a_branch_counts_on_in_a_directory_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "t"
    rows = pa.table({"id": ["a"]})
    table = lance.write_dataset(rows, place)
    branch = table.create_branch("draft", 1)
    first = branch.version
    lance.write_dataset(rows, branch, mode="append")
    tree = place / "tree" / "draft"

    assert lance.dataset(str(tree)).version == first + 1
    assert [(tree / version_name(first + each)).exists() for each in range(3)] == [True, True, False]
    assert not (place / version_name(2)).exists()
