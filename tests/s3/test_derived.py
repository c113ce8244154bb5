"""Derived files of graphs on S3: in a directory of this machine, and trusted as little."""

import os
from pathlib import Path

import pytest

from omnigraph_sql.storage.derived_files import derived_directory
from tests.crash import derived_reader
from tests.crash.test_derived_damage import read_damaged
from tests.stores import S3Place


@pytest.mark.slow
def test_a_damaged_file_in_the_cache_directory_changes_no_answer(root: S3Place) -> None:
    derived_reader.build(str(root), nodes=300, edges=600)
    assert Path(os.environ["OMNIGRAPH_CACHE_DIR"]) in derived_directory(str(root)).parents

    read_damaged(str(root), "write", seed=1, flips=1, traversal="csr")
