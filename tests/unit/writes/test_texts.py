"""Texts that a graph keeps: they are checked where they come in, and what earlier releases let in stops nobody."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.graph import resumption
from omnigraph_sql.manifest.texts import MAX_NAME, MAX_TEXT
from omnigraph_sql.writes.load.staged_load import StagedLoad
from omnigraph_sql.writes.operation import Provenance
from tests.crash.world import abandon, assert_settled, names, node, reopened, seeded, sidecars
from tests.manifests import open_manifest

BAD: dict[str, Any] = {
    "surrogate": "caf\udce9",
    "number": 7,
    "bytes": b"x",
    "list": ["x"],
    "truth": True,
    "nul": "a\x00b",
    "escape": "a\x1b[31m",
    "c1": "a\x85b",
    "long": "m" * (MAX_TEXT + 1),
}
ROW = [node("Team", slug="blue")]
INSERT = 'query q() { insert Team { slug: "blue" } }'
DOORS: dict[str, tuple[str, Callable[[og.Graph, Any], object]]] = {
    "load message": ("message", lambda g, text: g.load(ROW, mode="append", message=text)),
    "load actor": ("actor", lambda g, text: g.load(ROW, mode="append", actor=text)),
    "load key": ("idempotency_key", lambda g, text: g.load(ROW, mode="append", idempotency_key=text)),
    "ingest actor": ("actor", lambda g, text: g.ingest(ROW, branch="new", mode="append", actor=text)),
    "stage message": ("message", lambda g, text: g.stage(ROW, mode="append", message=text)),
    "stage key": ("idempotency_key", lambda g, text: g.stage(ROW, mode="append", idempotency_key=text)),
    "publish message": ("message", lambda g, text: g.publish(g.stage(ROW, mode="append"), message=text)),
    "publish actor": ("actor", lambda g, text: g.publish(g.stage(ROW, mode="append"), actor=text)),
    "publish key": ("idempotency_key", lambda g, text: g.publish(g.stage(ROW, mode="append"), idempotency_key=text)),
    "published": ("idempotency_key", resumption.published_commit),
    "take over": ("idempotency_key", lambda g, text: resumption.take_over(g, text, lambda _: True)),
    "discard abandoned": ("idempotency_key", resumption.discard_abandoned),
    "mutate actor": ("actor", lambda g, text: g.mutate(INSERT, actor=text)),
    "indices actor": ("actor", lambda g, text: g.ensure_indices(actor=text)),
    "tables message": ("message", lambda g, text: g.tables(message=text).create_schema("s")),
    "tables actor": ("actor", lambda g, text: g.tables(actor=text).create_schema("s")),
    "tag message": ("message", lambda g, text: g.tag("v1", message=text)),
    "tag actor": ("actor", lambda g, text: g.tag("v1", actor=text)),
    "schema comment": ("comment", lambda g, text: g.tables().create_schema("s", comment=text)),
    "view comment": ("comment", lambda g, text: view(g, comment=text)),
    "connect actor": ("actor", lambda g, text: og.connect(g.uri, actor=text)),
    "init actor": ("actor", lambda g, text: og.init(f"{g.uri}-other", "node P { name: String @key }", actor=text)),
    "remote": ("message", lambda _, text: Provenance("Load", None, text)),
}
NAMES: dict[str, Callable[[og.Graph, Any], object]] = {
    "create_branch": lambda g, name: g.create_branch(name),
    "create_branch base": lambda g, name: g.create_branch("new", name),
    "delete_branch": lambda g, name: g.delete_branch(name),
    "tag": lambda g, name: g.tag(name),
    "tag ref": lambda g, name: g.tag("new", name),
    "delete_tag": lambda g, name: g.delete_tag(name),
    "snapshot": lambda g, name: g.snapshot(branch=name),
    "load branch": lambda g, name: g.load(ROW, mode="append", branch=name),
    "schema": lambda g, name: g.tables().create_schema(name),
    "table": lambda g, name: g.tables().create_table("s", name, pa.table({"v": [1]})),
    "view": lambda g, name: g.tables().define_view("s", name, "select 1", dialect="datafusion", columns=["x"]),
    "rename": lambda g, name: g.tables().rename("s", "t", name),
}


def view(graph: og.Graph, **given: Any) -> object:
    return graph.tables().define_view("s", "v", **{"sql": "select 1", "dialect": "datafusion", "columns": ["x"], **given})


@pytest.mark.parametrize("door", DOORS)
def test_a_text_that_cannot_be_kept_is_refused_before_anything_is_touched(tmp_path: Path, door: str) -> None:
    parameter, enter = DOORS[door]
    graph = seeded(tmp_path / "g")
    commits, texts = graph.commits(), {**BAD, **({"reserved": "omnigraph:recovery"} if parameter == "actor" else {})}
    for kind, text in texts.items():
        with pytest.raises(errors.BadRequest) as refused:
            enter(graph, text)
        assert f"`{parameter}`" in refused.value.message or kind == "reserved", kind
        assert refused.value.message.encode("utf-8")
        assert refused.value.hint
    assert graph.commits() == commits
    assert_settled(reopened(tmp_path / "g"))


@pytest.mark.parametrize("door", NAMES)
def test_a_name_that_cannot_be_kept_is_refused(tmp_path: Path, door: str) -> None:
    graph = seeded(tmp_path / "g")
    graph.tables().create_table("s", "t", pa.table({"v": [1]}))
    commits = graph.commits()
    for name in (*BAD.values(), "n" * (MAX_NAME + 1), "é" * MAX_NAME, "a\tb", "a\nb", None):
        with pytest.raises((errors.BadRequest, errors.NotFound)):  # a branch that is only looked for may be longer
            NAMES[door](graph, name)
    assert graph.commits() == commits
    assert graph.branches() == ["main"]


@pytest.mark.parametrize("name", ["n" * MAX_NAME, "-/" * 33 + "n"])
def test_the_longest_names_work_together(tmp_path: Path, name: str) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch(name)
    graph.load(ROW, mode="append", branch=name, message="m" * MAX_TEXT)
    graph.tables(name).create_table("s" * MAX_NAME, "t" * MAX_NAME, pa.table({"v": [1]}))
    assert names(og.connect(graph.uri), name, "Team") == ["blue", "red"]
    graph.delete_branch(name)


@pytest.mark.parametrize(
    "given",
    [{"sql": "select '\udce9'"}, {"sql": 7}, {"columns": ["\udce9"]}, {"columns": [1]}, {"columns": "x"}, {"dialect": 3}],
)
def test_a_view_with_texts_that_cannot_be_kept_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    graph = seeded(tmp_path / "g")
    with pytest.raises(errors.BadRequest, match=rf"`{next(iter(given))}(\[0\])?`"):
        view(graph, **given)


@pytest.mark.parametrize("schema", ["node P { name: String @key } // caf\udce9", 7, b"node P { name: String @key }", None])
def test_a_schema_that_is_no_text_is_refused(tmp_path: Path, schema: Any) -> None:
    with pytest.raises(errors.BadRequest, match=r"`schema`|the schema"):
        og.init(tmp_path / "g", schema)
    assert not (tmp_path / "g").exists()


def test_texts_with_lines_tabs_and_any_script_are_kept(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    message = "first line\n\tsecond: Žluťoučký 🐎 \u202e"
    graph.load(ROW, mode="append", message=message, actor="Zoë")
    view(graph, sql="select 1\r\n  as x -- on Windows")
    assert [commit.message for commit in og.connect(graph.uri).commits()][1] == message


def test_bytes_on_the_command_line_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    (tmp_path / "rows.jsonl").write_text(ROW[0])
    ogsql, data = os.fsencode(Path(sys.executable).with_name("ogsql")), os.fsencode(tmp_path / "rows.jsonl")
    command = [ogsql, b"load", os.fsencode(graph.uri), b"--data", data, b"--mode", b"append"]
    for flag in (b"--message", b"--as", b"--branch"):
        done = subprocess.run([*command, flag, b"caf\xe9"], capture_output=True, check=False, timeout=120)
        assert done.returncode == 1
        assert b"is not UTF-8" in done.stderr or b"is not valid Unicode" in done.stderr
        assert b"Traceback" not in done.stderr
    assert len(og.connect(graph.uri).commits()) == 2


# What earlier releases let in ----------------------------------------------------------------------------------------

POISONS: dict[str, Any] = {
    "surrogate": ("caf\udce9", "caf\ufffd"),
    "number": (7, "7"),
    "fraction": (1.5, "1.5"),
    "truth": (True, "true"),
    "object": ({"a": [1]}, '{"a": [1]}'),
    "long": ("m" * (MAX_TEXT + 9), "m" * MAX_TEXT),
}


def head_entry(root: Path) -> tuple[Any, dict[str, Any]]:
    dataset = open_manifest(root)
    (row,) = dataset.to_table(filter="object_id = 'graph_head'").to_pylist()
    return dataset, row


def poison_head(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Write the head row as an earlier release would have."""
    dataset, row = head_entry(root)
    entry = json.loads(row["metadata"])
    metadata = change(entry)
    row["metadata"] = metadata if isinstance(metadata, str) else json.dumps(entry, sort_keys=True)
    rows = pa.Table.from_pylist([row], schema=dataset.schema)
    dataset.merge_insert("object_id").when_matched_update_all().execute(rows)


@pytest.mark.parametrize("has_sidecar", [True, False])
@pytest.mark.parametrize("poison", POISONS)
def test_a_poisoned_head_stops_nobody_and_is_repaired(tmp_path: Path, poison: str, *, has_sidecar: bool) -> None:
    root, (value, readable) = tmp_path / "g", POISONS[poison]
    graph = seeded(root)
    abandon("journal.before_append", lambda: graph.load(ROW, mode="append", message="m", actor="a"))
    poison_head(root, lambda entry: entry.update(message=value, actor_id=value))
    (sidecar,) = sidecars(root)
    if has_sidecar:
        entry = json.loads(sidecar.read_text("utf-8"))
        entry["actor_id"] = entry["intent"]["actor_id"] = entry["intent"]["message"] = value
        sidecar.write_text(json.dumps(entry))
    else:
        sidecar.unlink()

    reader = og.connect(root, read_only=True)
    assert (reader.commits()[0].message, reader.commits()[0].actor_id) == (readable, readable)
    again = og.connect(root)
    assert (again.commits()[0].message, again.commits()[0].actor_id) == (readable, readable)
    assert names(again, kind="Team") == ["blue", "red"]
    again.load([node("Team", slug="green")], mode="append", message="clean")

    assert json.loads(head_entry(root)[1]["metadata"])["message"] == "clean"
    assert [commit.message for commit in og.connect(root).commits()[:2]] == ["clean", readable]
    assert again.sql("select message from commits()").to_pylist()[0] == {"message": "clean"}
    assert again.recoveries()["pending"] == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: entry.update(graph_commit_id=7),
        lambda entry: entry.pop("graph_commit_id"),
        lambda entry: entry.update(created_at="x"),
        lambda entry: entry.update(created_at=1 << 70),
        lambda entry: entry.update(parent_commit_id=[1]),
        lambda entry: entry.update(writer_kind=None),
        lambda entry: entry.update(from_a_later_release=1),
        lambda _: "[1]",
        lambda _: "{",
        lambda _: "[" * 100_000,
    ],
)
def test_a_head_row_that_makes_no_sense_stops_nobody(tmp_path: Path, damage: Callable[[dict[str, Any]], object]) -> None:
    root = tmp_path / "g"
    seeded(root)
    poison_head(root, damage)

    for _ in range(2):
        assert names(og.connect(root)) == ["ann", "bob"]
        assert og.connect(root).commits()
    og.connect(root).load(ROW, mode="append", message="clean")
    assert og.connect(root).commits()[0].message == "clean"


def test_a_view_that_an_earlier_release_let_in_is_read(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    view(graph, comment="c")
    dataset = open_manifest(root)
    (row,) = dataset.to_table(filter="object_type = 'view'").to_pylist()
    row["metadata"] = json.dumps({"sql": "select 'caf\udce9' as x", "dialect": 3, "columns": ["x\udce9", 1], "comment": 7})
    dataset.merge_insert("object_id").when_matched_update_all().execute(pa.Table.from_pylist([row], schema=dataset.schema))

    graph = og.connect(root)
    shown = graph.sql("select definition from information_schema.views")
    assert shown.to_pylist() == [{"definition": "select 'caf\ufffd' as x"}]
    view(graph, replace=True, sql="select 2 as x")
    assert_settled(reopened(root))


def test_the_text_of_a_staged_load_brings_no_poison(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    entry = json.loads(graph.stage(ROW, mode="append", message="m").to_json())
    for name in ("message", "actor", "idempotency_key"):
        for text in BAD.values():
            if isinstance(text, bytes):
                continue
            poisoned = {**entry, "provenance": {**entry["provenance"], name: text}}
            with pytest.raises(errors.BadRequest):
                StagedLoad.from_json(json.dumps(poisoned))
