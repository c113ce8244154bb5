"""Derived files with any fault, in every part of them: each question gets the right answer, and no process ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql.storage.derived_files import SUFFIX, derived_directory
from tests.crash import derived_reader
from tests.stores import Place

MODES = ["read", "write"]


@pytest.fixture(scope="module")
def graph(new_place: Callable[[str], Place]) -> str:
    uri = str(new_place("derived"))
    derived_reader.build(uri)
    return uri


def read_damaged(uri: str, mode: str, *, seed: int, flips: int, traversal: str) -> None:
    """Read the graph after each damage. All answers must be right."""
    reports = run_reader(uri, mode, seed=seed, flips=flips, traversal=traversal)
    damage = [report for report in reports if "damage" in report]
    wrong = [
        (before, report)
        for place, report in enumerate(reports)
        if "wrong" in report
        for before in [[earlier for earlier in reports[:place] if "damage" in earlier][-1]]
    ]
    assert wrong == []
    assert reports[-1]["done"] >= 6
    assert len(damage) == reports[-1]["done"] * (flips + len(derived_reader.OTHERS))


def run_reader(uri: str, mode: str, *, seed: int, flips: int, traversal: str) -> list[dict[str, Any]]:
    """Read the graph in a process of its own, which a wild position would end. Returns what it reports."""
    command = [sys.executable, "-m", "tests.crash.derived_reader", uri, mode, str(seed), str(flips)]
    environment = os.environ | ({"OMNIGRAPH_TRAVERSAL_MODE": traversal} if traversal else {})
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=3000)
    reports: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    last = [report for report in reports if "damage" in report][-1:]
    assert result.returncode == 0, f"ended by {last}: {result.stderr[-2000:]}"
    return reports


@pytest.mark.parametrize("mode", MODES)
def test_a_damaged_file_changes_no_answer(graph: str, mode: str) -> None:
    read_damaged(graph, mode, seed=MODES.index(mode), flips=3, traversal="csr")


@pytest.mark.slow
@pytest.mark.parametrize("traversal", ["", "csr", "indexed"])
@pytest.mark.parametrize("mode", MODES)
def test_many_damaged_files_change_no_answer(graph: str, mode: str, traversal: str) -> None:
    read_damaged(graph, mode, seed=100 + MODES.index(mode), flips=80, traversal=traversal)


@pytest.mark.slow
def test_many_numbers_that_lead_anywhere_end_no_process(graph: str) -> None:
    run_reader(graph, "forge", seed=6, flips=120, traversal="csr")


def test_numbers_that_lead_anywhere_end_no_process(graph: str) -> None:
    """The checksums are right, the numbers are not: as from a release with a defect, or from somebody who means it."""
    run_reader(graph, "forge", seed=5, flips=12, traversal="csr")


def test_a_writer_puts_a_whole_file_in_the_place_of_a_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never into the file itself: whoever has it mapped would read what is half written."""
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    derived_reader.build(str(tmp_path / "g"), nodes=200, edges=300)
    with og.connect(tmp_path / "g") as first:
        right = derived_reader.answers(first)
        derived = derived_directory(first.uri)
        before = {path: (path.stat().st_ino, path.read_bytes()) for path in derived.rglob(f"*{SUFFIX}")}
        for path, (_, content) in before.items():
            derived_reader.place(path, content[:-1] + bytes([content[-1] ^ 1]))

        with og.connect(tmp_path / "g") as second:
            assert derived_reader.answers(second) == right
        assert derived_reader.answers(first) == right
    for path, (inode, content) in before.items():
        assert path.stat().st_ino != inode
        assert len(path.read_bytes()) == len(content)
    monkeypatch.undo()
    with og.connect(tmp_path / "g") as third:
        assert derived_reader.answers(third) == right
        assert third._store.storage.derived.calls["write"] == 0


def test_files_of_earlier_releases_are_not_read_and_go_with_a_cleanup(tmp_path: Path) -> None:
    derived_reader.build(str(tmp_path / "g"), nodes=200, edges=300)
    with og.connect(tmp_path / "g") as graph:
        right = derived_reader.answers(graph)
        files = list(derived_directory(graph.uri).rglob(f"*{SUFFIX}"))
        earlier = [path.rename(path.with_suffix(".arrow")) for path in files]
        (earlier[0].parent / f"directory{SUFFIX}").mkdir()

        with og.connect(tmp_path / "g") as again:
            assert derived_reader.answers(again) == right
        graph.cleanup(keep=3)

    assert not [path for path in earlier if path.exists()]
