"""Files that were never finished: those of dead processes are removed, those of living ones are left alone."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import omnigraph_sql as og
from omnigraph_sql.storage.derived_files import DerivedFiles
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.roots import resolve_root
from tests.manifests import record_place

SCHEMA = "node Port { code: String @key }"
PLACES = ["a", "__recovery/a.json", "_staged/load/rows.arrow"]

DYING = """
import os, signal, sys
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.roots import resolve_root

def pieces():
    yield b"half"
    os.kill(os.getpid(), signal.SIGKILL)

open_objects(resolve_root(sys.argv[1])).write_chunks(sys.argv[2], pieces())
"""


def die_writing(root: Path, name: str) -> None:
    died = subprocess.run([sys.executable, "-c", DYING, str(root), name], check=False)
    assert died.returncode == -signal.SIGKILL


def unfinished(root: Path) -> list[str]:
    return sorted(str(path.parent.relative_to(root)) for path in root.rglob(".tmp-*"))


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    return open_objects(resolve_root(tmp_path))


def test_opening_for_writing_removes_what_dead_processes_left(tmp_path: Path) -> None:
    og.init(tmp_path, SCHEMA)
    places = [*PLACES, os.path.relpath(str(record_place(tmp_path, "a")), tmp_path)]
    for name in places:
        die_writing(tmp_path, name)
    left = unfinished(tmp_path)

    og.connect(tmp_path, read_only=True)
    assert unfinished(tmp_path) == left == sorted(os.path.dirname(name) or "." for name in places)
    og.connect(tmp_path)

    assert unfinished(tmp_path) == []


@pytest.mark.parametrize("name", PLACES)
def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path, objects: ObjectStore, name: str) -> None:
    og.init(tmp_path, SCHEMA)

    def pieces() -> Iterator[bytes]:
        yield b"one, "
        og.connect(tmp_path)
        yield b"two"

    objects.write_chunks(name, pieces())

    assert objects.read_text(name) == "one, two"
    assert unfinished(tmp_path) == []


def test_writers_never_miss_a_file_that_others_look_at(objects: ObjectStore) -> None:
    over = threading.Event()

    def tidy() -> None:
        while not over.is_set():
            objects.discard_unfinished("")

    def write(number: int) -> bool:
        objects.write_text(f"{number}", "x")
        return objects.write_text_if_absent("once", str(number))

    with ThreadPoolExecutor(4) as writers, ThreadPoolExecutor(2) as others:
        looking = [others.submit(tidy) for _ in range(2)]
        try:
            created = list(writers.map(write, range(300)))
        finally:
            over.set()
        assert [each.result() for each in looking] == [None, None]

    assert created.count(True) == 1
    assert sorted(objects.list_dir("")) == sorted([*map(str, range(300)), "once"])


def test_an_object_that_cannot_take_its_place_leaves_nothing(tmp_path: Path, objects: ObjectStore) -> None:
    (tmp_path / "taken").mkdir()

    with pytest.raises(og.errors.OmnigraphError):
        objects.write_text("taken", "x")

    assert unfinished(tmp_path) == []


def test_derived_files_are_tidied_by_the_next_that_is_written(tmp_path: Path) -> None:
    die_writing(tmp_path, "kind/a")
    assert unfinished(tmp_path) == ["kind"]

    assert DerivedFiles(tmp_path).write("kind", "key", {}, {"numbers": np.arange(3)})

    assert unfinished(tmp_path) == []


def test_others_may_read_what_the_user_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        graph = og.init(tmp_path / "graph", "node Port { code: String @key }")
    finally:
        os.umask(before)
    made = [path for path in Path(graph.uri).iterdir() if path.is_file()]
    assert made
    assert {path.stat().st_mode & 0o777 for path in made} == {0o644}
