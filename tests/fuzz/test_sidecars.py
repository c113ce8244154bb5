"""Sidecars of writes that died, with one member changed: none stops an open, and none reaches outside of the graph."""

from __future__ import annotations

import copy
import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.crash.world import INSERT, INSERT_TEAM, OPERATIONS, Rows, abandon, names, prepared, rows, sidecars

VALUES: list[Any] = [
    None,
    "x",
    -1,
    0,
    3,
    1 << 63,
    10**30,
    1.5,
    True,
    [],
    {},
    [None],
    {"a": {}},
    "../../../../evil",
    "/tmp/evil",
    "..",
    "caf\udce9",
    "a\x00b",
    "node:Nope",
    "m" * 70_000,
]
GONE: Any = object()
SLICE = 131
"""One of so many changes is tried in the short set."""
COMPLETE, HALF = "write.post_effects_pre_publish", "write.post_table_commit@1"


def created(graph: og.Graph) -> None:
    """A table takes the place of a view: a table is created, a definition dropped, a schema is there."""
    graph.tables().create_table("main", "seen", pa.table({"x": [1]}), replace=True)


@dataclass(frozen=True)
class Case:
    """A write, and where it died."""

    name: str
    point: str
    branch: str
    write: Callable[[og.Graph], object]


CASES = [
    Case("many", COMPLETE, "main", OPERATIONS["many"]),
    Case("many", HALF, "main", OPERATIONS["many"]),
    Case("first_touch_many", COMPLETE, "draft", OPERATIONS["first_touch_many"]),
    Case("first_touch_many", "write.post_fork_pre_commit", "draft", OPERATIONS["first_touch_many"]),
    Case("created", COMPLETE, "main", created),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case.name}-{case.point}")
def died(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, Path, list[Rows]]:
    """A graph in which a write died, and what its branch may show from then on."""
    case: Case = request.param
    place = tmp_path_factory.mktemp("died")
    known = []
    for name in ("after", "g"):
        graph = prepared(place / name, case.name if case.name in OPERATIONS else "insert")
        if "draft" not in graph.branches():
            graph.create_branch("draft")
        graph.tables().define_view("main", "seen", "select 1 as x", dialect="datafusion", columns=["x"])
        if name == "g":
            known.append(rows(graph, case.branch))
            abandon(case.point, lambda graph=graph: case.write(graph))  # type: ignore[misc]
        else:
            case.write(graph)
            known.append(rows(graph, case.branch))
    return case, place / "g", known


def changes(entry: Any) -> Iterator[tuple[str, Any]]:
    """Every sidecar that differs from one in one member."""
    for path in list(paths(entry)):
        for value in (GONE, *VALUES):
            changed = copy.deepcopy(entry)
            inner = changed
            for step in path[:-1]:
                inner = inner[step]
            if value is GONE:
                del inner[path[-1]]
            elif inner[path[-1]] == value:
                continue
            else:
                inner[path[-1]] = value
            what = "gone" if value is GONE else ascii(value)[:30]
            yield f"{'.'.join(map(str, path))}={what}", changed


def paths(entry: Any, start: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The members of a JSON value, and theirs."""
    members = entry.items() if isinstance(entry, dict) else enumerate(entry) if isinstance(entry, list) else ()
    for key, value in members:
        yield (*start, key)
        yield from paths(value, (*start, key))


def outside(place: Path) -> list[str]:
    """What there is beside the graph."""
    return sorted(str(path) for path in place.rglob("*") if "g" not in path.relative_to(place).parts[:1])


def try_one(case: Case, root: Path, text: str, known: list[Rows], place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(root, place / "g")
    (place / "edges").mkdir()
    (sidecar,) = sidecars(place / "g")
    sidecar.write_text(text, encoding="utf-8")
    before = outside(place)

    graph = og.connect(place / "g")
    assert og.connect(place / "g").recoveries() == graph.recoveries()
    assert len(graph.recoveries()["quarantined"]) <= 1
    assert rows(graph, case.branch)["Person"] in [each["Person"] for each in known]
    graph.load(['{"type": "Place", "data": {"slug": "new"}}'], mode="append", branch="main")
    for statement, params in ((INSERT, {"name": "zoe"}), (INSERT_TEAM, {"slug": "zeal"})):
        try:
            graph.mutate(statement, params=params, branch=case.branch)
        except errors.Conflict as refused:
            if refused.reason != "drift":
                raise
    assert set(names(graph, case.branch)) - {"zoe"} in [{row["id"] for row in each["Person"]} for each in known]
    assert outside(place) == before


def is_chosen(label: str) -> bool:
    return zlib.crc32(label.encode()) % SLICE == 0


def run(died: tuple[Case, Path, list[Rows]], tmp_path: Path, *, complete: bool) -> None:
    case, root, known = died
    (sidecar,) = sidecars(root)
    entry = json.loads(sidecar.read_text("utf-8"))
    count = 0
    for label, changed in changes(entry):
        if complete or is_chosen(label):
            count += 1
            try:
                try_one(case, root, json.dumps(changed), known, tmp_path / "copy")
            except Exception as error:
                raise AssertionError(f"{label}: {type(error).__name__} {error}") from error
    assert count > 3


def test_a_changed_sidecar_stops_nobody(died: tuple[Case, Path, list[Rows]], tmp_path: Path) -> None:
    run(died, tmp_path, complete=False)


@pytest.mark.slow
def test_no_changed_sidecar_stops_anybody(died: tuple[Case, Path, list[Rows]], tmp_path: Path) -> None:
    run(died, tmp_path, complete=True)


def test_the_sidecar_as_it_is_is_recovered(died: tuple[Case, Path, list[Rows]], tmp_path: Path) -> None:
    case, root, known = died
    (sidecar,) = sidecars(root)
    try_one(case, root, sidecar.read_text("utf-8"), known, tmp_path / "copy")
    graph = og.connect(tmp_path / "copy" / "g")
    assert graph.recoveries()["quarantined"] == []
    assert len(graph.recoveries()["audit"]) == 1


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 100_000, '{"schema_version": NaN}', "1" * 5000, "null", '"x"'])
def test_a_text_that_is_no_object_stops_nobody(died: tuple[Case, Path, list[Rows]], tmp_path: Path, text: str) -> None:
    case, root, known = died
    try_one(case, root, text, known, tmp_path / "copy")
