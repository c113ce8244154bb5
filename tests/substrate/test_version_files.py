"""The file of a version: what stands where, as far as copies rely on it."""

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph_sql.storage.relocation import flattened_file, relocated_file


@pytest.fixture
def forked(tmp_path: Path) -> Path:
    """A dataset with an index, deleted rows, and a branch of a branch that deleted and appended."""
    place = tmp_path / "t"
    options: dict[str, Any] = {"enable_stable_row_ids": True, "data_storage_version": "2.2"}
    dataset = lance.write_dataset(pa.table({"id": [f"r{number}" for number in range(9)]}), str(place), **options)
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id = 'r1'")
    one = lance.dataset(str(place)).create_branch("one")
    one.delete("id = 'r2'")
    two = lance.dataset(str(place)).create_branch("two/x", ("one", None))
    lance.write_dataset(pa.table({"id": ["new"]}), two, mode="append")
    return place


def newest(place: Path) -> Path:
    return min((place / "_versions").glob("*.manifest"))


def columns(dataset: Any) -> Any:
    return dataset.to_table(columns=["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]).to_pydict()


def test_a_version_of_a_branch_reads_the_files_beside_it(forked: Path, tmp_path: Path) -> None:
    branch = forked / "tree" / "two" / "x"
    expected = columns(lance.dataset(str(branch)))
    flat = tmp_path / "flat"
    for place in (forked, forked / "tree" / "one", branch):
        for name in ("data", "_deletions", "_indices", "_transactions"):
            if (place / name).exists():
                shutil.copytree(place / name, flat / name, dirs_exist_ok=True)
    (flat / "_versions").mkdir()
    file = newest(branch)
    (flat / "_versions" / file.name).write_bytes(flattened_file(file.read_bytes(), root=str(tmp_path), name="flat"))
    shutil.rmtree(forked)

    dataset = lance.dataset(str(flat))

    assert columns(dataset) == expected
    assert dataset.to_table(filter="id = 'r5'").num_rows == 1
    assert [index.name for index in dataset.describe_indices()] == ["id_idx"]
    dataset.validate()  # type: ignore[no-untyped-call]
    later = lance.write_dataset(pa.table({"id": ["later"]}), str(flat), mode="append")
    later.delete("id = 'r3'")
    assert later.count_rows() == len(expected["id"])
    assert later.create_branch("side").count_rows() == len(expected["id"])


def test_a_relocated_version_differs_in_its_addresses_only(forked: Path, tmp_path: Path) -> None:
    branch = newest(forked / "tree" / "two" / "x").read_bytes()
    moved = relocated_file(branch, root="/elsewhere", name="t")

    assert moved != branch
    assert relocated_file(moved, root=str(tmp_path), name="t") == branch
    assert relocated_file(branch, root=str(tmp_path), name="t") == branch
    main = newest(forked).read_bytes()
    assert relocated_file(main, root="/elsewhere", name="t") == flattened_file(main, root="/elsewhere", name="t") == main


@pytest.mark.parametrize("damaged", [b"", b"LANC", b"\xff" * 12 + b"LANC", b"{}"])
def test_what_is_no_version_is_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="not the file of a version"):
        relocated_file(damaged, root="/elsewhere", name="t")
