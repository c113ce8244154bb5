"""Cutting a writer off after its k-th change on disk, and judging what a reopened graph shows.

`cut.c` runs the writer as a process of its own and kills it right after the change; what it had done by then is in its log,
and from that alone the oracle of the writer says which state must be there. It never says "one of the two".
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import omnigraph_sql as og
from omnigraph_sql.errors import NotFound
from omnigraph_sql.manifest.relations import relations, schemas
from tests.crash import world
from tests.crash.cuts_writers import WRITERS, Change, Writer, is_published, table_versions

SOURCE = Path(__file__).with_name("cut.c")
TEMPLATE = Path(__file__).with_name("cuts_template.py")
KILLED, UNTRACEABLE = 200, 201

State = dict[str, Any] | None
"""What a graph shows, by branch; None when there is no graph."""


class Unavailable(Exception):
    """This machine cannot cut processes; the text says why."""


class Cutter:
    """Runs writers in processes of their own and kills them where it is told to."""

    def __init__(self, library: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(TEMPLATE), str(library)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(world.ROOT), *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        self._process.communicate()

    def run(self, directory: Path, name: str, limit: int) -> tuple[int, tuple[Change, ...]]:
        """Run a writer on `directory/g`, killed after so many changes (never, for 0); its status and its changes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"name": name, "limit": limit, "directory": str(directory)}) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        complaint = (directory / "errors").read_text("utf-8")
        if status == UNTRACEABLE:
            raise Unavailable(f"this machine does not let a process watch its children: {complaint.strip()}")
        assert status in (0, KILLED), f"{name} failed with {status}: {complaint}"
        return status, tuple(_parse(line) for line in (directory / "log").read_text("utf-8").splitlines())


def compile_cutter(directory: Path) -> Cutter:
    """Fails with `Unavailable` where processes cannot be cut."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        raise Unavailable("cuts need Linux and a C compiler (cc)")
    library = directory / "cut.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True, capture_output=True)
    return Cutter(library)


def observe(graph: og.Graph) -> dict[str, Any]:
    """Everything a reader can see on every branch and by every tag."""
    tags = {f"@{tag.name}": world.rows(graph, commit=tag.name) for tag in graph.tags()}
    return {branch: _observe(graph, branch) for branch in graph.branches()} | tags


def _observe(graph: og.Graph, branch: str) -> dict[str, Any]:
    snapshot = graph.snapshot(branch=branch)
    merges = sum(commit.merged_parent_commit_id is not None for commit in graph.commits(branch))
    found: dict[str, Any] = {"rows": world.rows(graph, branch), "schemas": schemas(snapshot), "merges": merges}
    for each in relations(snapshot):
        found[each.table_key] = each.definition or _table_rows(Path(graph.uri), snapshot.entry(each.table_key))
    return found


def _table_rows(root: Path, entry: Any) -> list[dict[str, Any]]:
    place = root / entry.path if entry.branch is None else root / entry.path / "tree" / entry.branch
    rows: list[dict[str, Any]] = lance.dataset(str(place), version=entry.version).to_table().to_pylist()
    assert len(rows) == entry.row_count
    return sorted(rows, key=str)


def opened(root: Path) -> og.Graph | None:
    try:
        return og.connect(root, embedder="mock")
    except NotFound as error:
        if error.what != "graph":
            raise
        return None


def state(graph: og.Graph | None) -> State:
    return None if graph is None else observe(graph)


@dataclass(frozen=True)
class Rehearsal:
    """A writer that ran to its end once: its changes, and the states before and after it."""

    name: str
    cutter: Cutter
    directory: Path
    changes: tuple[Change, ...]
    before: State
    after: State

    @property
    def writer(self) -> Writer:
        return WRITERS[self.name]


def rehearse(name: str, cutter: Cutter, directory: Path) -> Rehearsal:
    writer = WRITERS[name]
    prepared = directory / name / "prepared"
    prepared.mkdir(parents=True)
    writer.prepare(prepared / "g")
    # Read-only where something is left to recover: looking must not settle it.
    before = None if name == "init" else observe(og.connect(prepared / "g", read_only=True))
    copy = directory / name / "whole"
    shutil.copytree(prepared, copy)
    status, changes = cutter.run(copy, name, 0)
    assert status == 0, f"{name} does not run"
    after = state(opened(copy / "g"))
    assert changes, f"{name} changes nothing on disk"
    if not name.startswith("recover") and not writer.unseen:
        assert after != before, f"{name} changes nothing that can be seen"
    shutil.rmtree(copy)
    return Rehearsal(name, cutter, directory / name, changes, before, after)


def _parse(line: str) -> Change:
    call, *names = line.split(" ")
    return Change(call, names[-1], names[0] if len(names) > 1 else "")


def check_cut(rehearsal: Rehearsal, k: int) -> None:
    """Kill the writer after its k-th change, reopen twice, and compare with what must be there."""
    writer = rehearsal.writer
    directory = rehearsal.directory / str(k)
    shutil.copytree(rehearsal.directory / "prepared", directory)
    status, changes = rehearsal.cutter.run(directory, rehearsal.name, k)
    if status == 0:
        # A run may need a change less, when two threads find each other's directory; then nothing was cut.
        assert len(changes) < k
        shutil.rmtree(directory)
        return
    assert len(changes) == k
    expected = writer.oracle(changes, rehearsal.changes)
    wanted = rehearsal.after if expected.visible else rehearsal.before
    root = directory / "g"
    first = opened(root)
    assert state(first) == wanted, f"the graph shows something else than {'after' if expected.visible else 'before'}"
    second = opened(root)
    assert state(second) == wanted, "the second opening shows something else than the first"
    if second is not None:
        _assert_clean(second, writer)
        audited = world.kinds(second)
        assert audited == (["RolledForward" if expected.visible else "RolledBack"] if expected.audited else [])
    _assert_usable(root, rehearsal, visible=expected.visible)
    shutil.rmtree(directory)


def _assert_clean(graph: og.Graph, writer: Writer) -> None:
    unfinished = [str(path) for path in Path(graph.uri).rglob(".tmp-*")]
    assert unfinished == [], "opening the graph left files that nobody will finish"
    if writer.litters:
        assert world.sidecars(Path(graph.uri)) == []
        return
    world.assert_settled(graph)


def _assert_usable(root: Path, rehearsal: Rehearsal, *, visible: bool) -> None:
    """An operation that was undone succeeds when it is repeated; then every table of every branch takes a write."""
    writer = rehearsal.writer
    if not visible and not rehearsal.name.startswith("recover"):
        again = writer.again or writer.run
        again(writer.opening(root))
        assert state(opened(root)) == rehearsal.after, "repeated, the operation has another result"
    graph = og.connect(root, embedder="mock")
    for branch in graph.branches():
        graph.load(
            [
                world.node("Person", name="zoe"),
                world.node("Team", slug="z"),
                world.edge("Knows", "zoe", "zoe"),
                world.edge("Member", "zoe", "z"),
            ],
            mode="append",
            branch=branch,
        )
        for each in relations(graph.snapshot(branch=branch)):
            graph.tables(branch).create_table(each.schema, each.name, pa.table({"n": [1]}), replace=True)
    _assert_clean(graph, writer)


def telling(rehearsal: Rehearsal, turn: int) -> list[int]:
    """A few cuts that tell most: around the change that decides, and another one that differs by writer."""
    whole = rehearsal.changes
    visible = [rehearsal.writer.oracle(whole[:k], whole).visible for k in range(len(whole) + 1)]
    flip = next((k for k in range(1, len(whole) + 1) if visible[k]), len(whole))
    publish = next((k for k in range(1, len(whole) + 1) if is_published(whole[:k])), flip)
    last_table = table_versions(whole)
    half = next(
        (k for k in range(1, len(whole) + 1) if last_table and table_versions(whole[:k]) == (last_table + 1) // 2), 1
    )
    chosen = {flip, max(flip - 1, 1), (publish, half)[turn % 2], (turn * 7) % len(whole) + 1}
    return sorted(chosen)


def failures(rehearsal: Rehearsal, cuts: Iterable[int]) -> Iterator[str]:
    """Every cut that went wrong, with the writer, the number of the cut and the change it came after."""
    for k in cuts:
        try:
            check_cut(rehearsal, k)
        except Exception as error:
            change = rehearsal.changes[k - 1]
            where = traceback.extract_tb(error.__traceback__)[-1]
            cut = f"{rehearsal.name}, cut {k} of {len(rehearsal.changes)} ({change.call} {change.name})"
            yield f"{cut}: {error!r} at {Path(where.filename).name}:{where.lineno}"
