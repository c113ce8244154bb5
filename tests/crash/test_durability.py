"""`OMNIGRAPH_FSYNC=1`: what a publish rests on is flushed before the publish is acknowledged, in that order."""

import errno
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.crash.world import CHILD, INSERT, ROOT, assert_settled, names, prepared, reopened, seeded
from tests.internals import store_of

pytestmark = pytest.mark.local


def flushed(graph: og.Graph) -> Counter[str]:
    return Counter({part: calls["fsync"] for part, calls in store_of(graph).calls.items() if calls["fsync"]})


def test_nothing_of_lance_is_flushed_unless_asked_for(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    graph.mutate(INSERT, params={"name": "cleo"})
    assert flushed(graph) == {}


def test_each_part_of_a_publish_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = seeded(tmp_path / "g")
    monkeypatch.setenv("OMNIGRAPH_FSYNC", "1")

    graph.mutate(INSERT, params={"name": "cleo"}, actor="op")

    # A table: rows, transaction, version, their three directories, the table, the directory of tables, and the root. The
    # manifest also replaces rows: a list of those that are gone, and its directory. A sidecar: its directory and the root.
    assert flushed(graph) == {"tables": 9, "manifest": 11, "commits": 9, "actors": 9, "objects": 2}


@pytest.mark.parametrize("part", ["nodes", "__manifest", "_graph_commits.lance"])
def test_a_flush_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Before the publish it undoes the write; after it the write stays and says so; the journal is completed by the next."""
    root = tmp_path / "g"
    graph = seeded(root)
    flush = os.fsync

    def fail(descriptor: int) -> None:
        if f"/g/{part}/" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "Input/output error")
        flush(descriptor)

    monkeypatch.setenv("OMNIGRAPH_FSYNC", "1")
    monkeypatch.setattr(os, "fsync", fail)
    outcome = None
    try:
        graph.mutate(INSERT, params={"name": "cleo"})
    except (errors.Storage, errors.RecoveryRequired) as error:
        outcome = error
    monkeypatch.undo()

    graph = reopened(root)
    assert_settled(graph)
    assert ("cleo" in names(graph)) == (part != "nodes")
    if part == "__manifest":
        assert f"the write is visible as commit {graph.commits()[0].graph_commit_id}, but not on disk" in str(outcome)
    assert (outcome is None) == (part == "_graph_commits.lance")


@pytest.mark.parametrize("operation", ["update", "delete", "first_touch_many", "create_branch"])
def test_every_file_of_a_write_is_flushed_and_before_the_publish(tmp_path: Path, operation: str) -> None:
    """Watches a process: whatever file it made is flushed, tables before the manifest that shows them."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed; the counters above show that the parts are flushed")
    root = tmp_path / "g"
    prepared(root, operation)
    before = set(root.rglob("*"))
    trace = tmp_path / "trace"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMNIGRAPH_FSYNC": "1"}
    watched = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
    subprocess.run([*watched, sys.executable, str(CHILD), str(root), operation, ""], env=env, check=True, timeout=300)

    calls = re.findall(r"f(?:data)?sync\(\d+<([^>]+)>\)\s+= 0", trace.read_text())
    made = {path for path in set(root.rglob("*")) - before if "_locks" not in path.parts and "_refs" not in path.parts}
    files = {str(path) for path in made if path.is_file() and path.name != "latest_version_hint.json"}
    records = {file for file in files if "/_branches/" in file}  # are flushed before they get their names
    assert files - records <= set(calls)
    assert {str(Path(file).parent) for file in files} <= set(calls)
    tables = [at for at, path in enumerate(calls) if re.search(r"/(nodes|edges)/", path)]
    manifest = [at for at, path in enumerate(calls) if re.search(r"/__manifest/[0-9A-Z]+/(_versions|tree)/", path)]
    assert not tables or max(tables) < min(manifest)
