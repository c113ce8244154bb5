"""Small files of a graph that somebody changed: none stops an opening, none leads outside of the graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors, ulid
from omnigraph_sql.graph import resumption
from omnigraph_sql.spark.ledger import open_ledger
from omnigraph_sql.store.locks.leases import _read as read_lease
from omnigraph_sql.store.owners import this_process
from omnigraph_sql.writes.distributed.load import begin_table, discard_remote, finish_table, publish_remote
from omnigraph_sql.writes.distributed.parts import LoadPart
from omnigraph_sql.writes.distributed.table import DistributedTable
from omnigraph_sql.writes.distributed.task import write_rows
from omnigraph_sql.writes.operation import Provenance
from tests.crash.world import assert_settled, names, node, reopened, seeded
from tests.internals import store_of

ATTEMPT = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
DEAD = {"host": this_process().host, "machine": this_process().machine, "pid": 1 << 30, "process_start": "1"}
NONSENSE: list[str] = ["", "{", "[" * 100_000, "null", "[1]", "7", '"x"', "\x00", '{"x": NaN}', "{}"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file.lance").write_text("mine")
    (tmp_path / "precious.json").write_text("mine")
    seeded(tmp_path / "g")
    return tmp_path / "g"


@pytest.fixture(autouse=True)
def untouched(root: Path) -> Iterator[None]:
    yield
    assert (root.parent / "precious" / "file.lance").read_text() == "mine"
    assert (root.parent / "precious.json").read_text() == "mine"


# Claims of an initialisation -----------------------------------------------------------------------------------------


def claim(**changed: Any) -> str:
    return json.dumps({"attempt": ATTEMPT, "owner": DEAD, "writes": ["_schema.pg"], **changed})


CLAIMS = [
    *NONSENSE,
    claim(attempt="../precious"),
    claim(attempt=7),
    claim(owner=None),
    claim(owner={**DEAD, "pid": "x"}),
    claim(writes=["../precious"]),
    claim(writes=["/tmp"]),
    claim(writes=["nodes"]),
    claim(writes=7),
    claim(writes=[[]]),
]


@pytest.mark.parametrize("text", CLAIMS, ids=range(len(CLAIMS)))
def test_a_claim_that_makes_no_sense_stops_no_opening_and_removes_nothing(root: Path, text: str) -> None:
    (root / "__init_claim.json").write_text(text)
    (root / f"__init_claim.{ATTEMPT}.json").write_text(claim())  # continues itself
    graph = og.connect(root)
    assert not (root / "__init_claim.json").exists()
    assert names(graph) == ["ann", "bob"]

    empty = root.parent / "empty"
    empty.mkdir()
    (empty / "__init_claim.json").write_text(text)
    try:
        og.init(empty, "node P { name: String @key }").close()
    except errors.InitializationClaimed as refused:
        assert refused.hint is not None and "__init_claim.json" in refused.hint  # noqa: PT017, PT018


def test_a_directory_in_the_place_of_a_claim_stops_no_opening(root: Path) -> None:
    (root / "__init_claim.json").mkdir()
    assert names(og.connect(root)) == ["ann", "bob"]


# Leases --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", [1e300, -1, 0, float("inf"), "x", None, [], True, 10**400])
def test_a_lease_with_an_odd_period_lasts_as_long_as_any_other(period: Any) -> None:
    entry = json.dumps({"token": "t", "owner": DEAD, "period_s": period})
    token, owner, seconds = read_lease(entry)
    assert (token, owner is not None) in [("t", True), (None, False)]
    assert seconds is None or 0 < seconds <= 3600


@pytest.mark.parametrize("text", [*NONSENSE, '{"token": []}', '{"token": {"a": 1}, "owner": 7}'])
def test_a_lease_that_makes_no_sense_is_nobodys(text: str) -> None:
    assert read_lease(text) == (None, None, None)


# What was staged -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*NONSENSE, '{"owner": 7, "load": "x"}', '{"owner": {}, "load": "{}", "turn": "x"}'])
def test_a_record_of_a_staged_load_that_makes_no_sense_is_left(root: Path, text: str) -> None:
    for name in (ATTEMPT, "odd name", "-"):
        (root / "_staged" / name).mkdir(parents=True)
        (root / "_staged" / name / "load.json").write_text(text)
    graph = og.connect(root)
    assert resumption.discard_abandoned(graph, "key") == 0
    assert resumption.take_over(graph, "key", lambda _: True) is None
    graph.cleanup(keep=10)


@pytest.mark.parametrize("change", [{"load_id": "../precious"}, {"load_id": "another"}, {"tables": []}])
def test_a_record_that_was_changed_removes_nothing_of_others(root: Path, change: dict[str, Any]) -> None:
    graph = og.connect(root)
    staged = graph.stage([node("Team", slug="blue")], mode="append", idempotency_key="key")
    place = root / "_staged" / staged.load_id / "load.json"
    entry = json.loads(place.read_text())
    entry["load"] = json.dumps({**json.loads(entry["load"]), **change})
    place.write_text(json.dumps({**entry, "owner": DEAD}))

    resumption.discard_abandoned(graph, "key")

    assert names(graph, kind="Team") == ["red"]
    assert_settled(reopened(root))


LEDGERS: dict[str, str] = {
    **{f"run.json {number}": text for number, text in enumerate(NONSENSE)},
    "run.json identity": json.dumps({"owner": DEAD, "identity": [], "turn": 0}),
    "run.json numbers": json.dumps({"owner": DEAD, "identity": [7], "turn": 0}),
    "run.json turn": json.dumps({"owner": DEAD, "identity": ["key"], "turn": "../x"}),
}


@pytest.mark.parametrize("label", LEDGERS)
def test_a_ledger_that_makes_no_sense_is_left(root: Path, label: str) -> None:
    graph = og.connect(root)
    for name in (ATTEMPT, "odd name"):
        (root / "_staged" / name).mkdir(parents=True)
        (root / "_staged" / name / "run.json").write_text(LEDGERS[label])
    assert open_ledger(store_of(graph), ["key"]).load_id != ATTEMPT


@pytest.mark.parametrize("text", [*NONSENSE, '{"seen": "x"}', '{"seen": 1, "malformed": 0, "mapped": 1, "tables": [7]}'])
def test_a_target_whose_note_makes_no_sense_is_written_again(root: Path, text: str) -> None:
    directory = root / "_staged" / ATTEMPT
    directory.mkdir(parents=True)
    (directory / "run.json").write_text(json.dumps({"owner": DEAD, "identity": ["key"], "turn": 0}))
    (directory / "done-0.json").write_text(text)
    (directory / "done-x.json").write_text("{}")
    ledger = open_ledger(store_of(og.connect(root)), ["key"])
    assert (ledger.load_id, ledger.done) == (ATTEMPT, {})


# What tasks hand back ------------------------------------------------------------------------------------------------


def written(graph: og.Graph, branch: str = "main") -> tuple[DistributedTable, LoadPart]:
    table = begin_table(store_of(graph), "job", "Person", pa.schema([("name", pa.string())]), mode="append", branch=branch)
    return table, write_rows(store_of(graph), table, [pa.record_batch({"name": ["cleo", "dora"]})], 0)


def fragment(part: LoadPart, **changed: Any) -> LoadPart:
    (entry,) = part.fragments
    return replace(part, fragments=({**entry, **changed},))


def file(part: LoadPart, **changed: Any) -> LoadPart:
    (entry,) = part.fragments
    return fragment(part, files=[{**entry["files"][0], **changed}])


PARTS: dict[str, Callable[[LoadPart], LoadPart]] = {
    "a file elsewhere": lambda part: file(part, path="../../../precious/file.lance"),
    "a file that is not there": lambda part: file(part, path="nope.lance"),
    "another base": lambda part: file(part, base_id=3),
    "other columns": lambda part: file(part, fields=[3, 2, 1, 0]),
    "more rows in the file": lambda part: fragment(part, physical_rows=9),
    "more rows": lambda part: replace(part, rows=9),
    "deleted rows": lambda part: fragment(part, deletion_file={"file_type": "array", "id": 1, "read_version": 1}),
    "no files": lambda part: fragment(part, files=[]),
    "no fragment": lambda part: replace(part, fragments=(7,)),
    "the same fragment twice": lambda part: replace(part, rows=4, fragments=part.fragments * 2),
    "rejects elsewhere": lambda part: replace(part, rejects="../precious.json"),
    "rows elsewhere": lambda part: replace(part, fragments=(), spool="_schema.pg"),
    "a negative number": lambda part: replace(part, number=-1),
}


@pytest.mark.parametrize("damage", PARTS)
def test_what_a_task_hands_back_is_compared_with_its_files(root: Path, damage: str) -> None:
    graph = og.connect(root)
    table, part = written(graph)
    finish_table(store_of(graph), table, [PARTS[damage](part)])
    with pytest.raises((errors.BadRequest, errors.NotFound)):
        publish_remote(store_of(graph), "job", Provenance("Load"))
    assert names(og.connect(root)) == ["ann", "bob"]
    graph.load([node("Person", name="after")], mode="append")
    assert_settled(reopened(root))


CHANGES: list[dict[str, Any]] = [
    {"load_id": "other"},
    {"table_key": 7},
    {"branch": "../x"},
    {"mode": "zap"},
    {"save_id": ".."},
    {"explicit": 1},
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_write_that_was_changed_is_refused(root: Path, change: dict[str, Any]) -> None:
    graph = og.connect(root)
    table, part = written(graph)
    finish_table(store_of(graph), table, [part])
    (place,) = (root / "_staged" / "job").glob("table-*.json")
    entry = json.loads(place.read_text())
    entry["table"] |= change
    place.write_text(json.dumps(entry))
    with pytest.raises(errors.BadRequest):
        publish_remote(store_of(graph), "job", Provenance("Load"))
    assert names(graph) == ["ann", "bob"]


def test_an_attempt_that_names_files_of_others_removes_none_of_them(root: Path) -> None:
    graph = og.connect(root)
    written(graph)
    wanted = [
        "../precious/file.lance",
        "../precious.json",
        "_schema.pg",
        "__manifest/_versions/1.manifest",
        "_staged/x/y",
    ]
    note = root / "_staged" / "job" / f"attempt-{ulid.new()}.json"
    note.write_text(json.dumps({"files": wanted}))
    discard_remote(store_of(graph), "job")
    assert (root / "_schema.pg").exists()
    assert_settled(reopened(root))
