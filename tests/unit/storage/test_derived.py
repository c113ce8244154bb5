"""Where derived files are, and that what comes out of them is what went in."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph_sql.storage.derived_files import DerivedFiles, derived_directory


def test_a_local_graph_has_them_in_its_directory(tmp_path: Path) -> None:
    assert derived_directory(tmp_path) == tmp_path / "_derived"


def test_a_graph_on_an_object_store_has_them_in_a_local_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path))

    found = derived_directory("s3://bucket/graph")

    assert found.parent == tmp_path
    assert found == derived_directory("s3://bucket/graph/")
    assert found != derived_directory("s3://bucket/other")


def test_the_users_cache_directory_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OMNIGRAPH_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert derived_directory("s3://bucket/graph").parent == tmp_path / "omnigraph"


def test_arrays_of_any_length_come_back_mapped_and_read_only(tmp_path: Path) -> None:
    files = DerivedFiles(tmp_path)
    arrays: dict[str, Any] = {"long": np.arange(1000), "short": np.array([7], np.int32), "none": np.empty(0, np.uint64)}

    assert files.write("kind", "key", {"rows": 3}, arrays)
    found = files.read("kind", "key")

    assert found is not None
    assert (found.key, found.facts, found.mapped) == ("key", {"rows": 3}, True)
    for name, values in arrays.items():
        assert found.arrays[name].dtype == values.dtype
        assert found.arrays[name].tolist() == values.tolist()
        assert not found.arrays[name].flags.writeable
    assert files.read("kind", "another key") is None
    assert [each.key for each in files.listing("kind")] == ["key"]


def test_a_forgotten_file_stays_with_whoever_has_it(tmp_path: Path) -> None:
    files = DerivedFiles(tmp_path)
    files.write("kind", "key", {}, {"values": np.arange(5)})
    found = files.read("kind", "key")
    files.forget("kind", "key")
    files.forget("kind", "key")

    assert found is not None
    assert found.arrays["values"].tolist() == [0, 1, 2, 3, 4]
    assert files.read("kind", "key") is None
