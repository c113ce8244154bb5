"""Texts of staged loads that somebody changed: none is published that breaks a rule of the schema or reaches elsewhere."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.choices import LoadMode
from omnigraph_sql.storage.handles import StagedHandle
from omnigraph_sql.writes.load.staged_load import StagedLoad

SCHEMA = """
node Person { name: String @key  age: I64?  tag: String? @unique  @range(age, 0..150) }
edge Knows: Person -> Person { since: I64? }
"""
Entry = dict[str, Any]


def person(name: str, **data: Any) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, **data}})


def knows(source: str, target: str) -> str:
    return json.dumps({"edge": "Knows", "from": source, "to": target})


FIRST = [person("A", age=1, tag="a"), person("B"), person("C")]
NEXT = [person("X", age=2, tag="x"), person("Y"), knows("X", "A"), knows("Y", "X")]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    other = og.init(tmp_path / "other", SCHEMA)
    other.load(FIRST, mode="append")
    made = og.init(tmp_path / "g", SCHEMA)
    made.load(FIRST, mode="append")
    return made


def staged(graph: og.Graph, records: list[str] = NEXT, mode: LoadMode = "append") -> Entry:
    found: Entry = json.loads(graph.stage(records, mode=mode).to_json())
    return found


def table(entry: Entry, key: str = "node:Person") -> Entry:
    found: Entry = next(each for each in entry["tables"] if each["table_key"] == key)
    return found


def fragments(entry: Entry, key: str = "node:Person") -> list[Any]:
    transaction = table(entry, key)["staged"]["transaction"]
    for kind in ("append", "overwrite"):
        if kind in transaction:
            return list(transaction[kind]["fragments"])
    return list(transaction["update"]["new"])


def publish(graph: og.Graph, entry: Entry) -> object:
    return graph.publish(StagedLoad.from_json(json.dumps(entry)))


def look(graph: og.Graph, entry: Entry) -> object:
    with graph.preview(StagedLoad.from_json(json.dumps(entry))) as preview:
        return preview.sql('select count(*) from "Person"').to_pylist()


def remove(graph: og.Graph, entry: Entry) -> None:
    graph.discard(StagedLoad.from_json(json.dumps(entry)))


# Members -------------------------------------------------------------------------------------------------------------

WRONG: list[tuple[tuple[Any, ...], Any]] = [
    (("load_id",), "../x"),
    (("load_id",), ".."),
    (("load_id",), 7),
    (("mode",), "zap"),
    (("mode",), None),
    (("base", "branch"), "../main"),
    (("base", "branch"), 7),
    (("base", "manifest_version"), "x"),
    (("base", "manifest_version"), -1),
    (("base", "manifest_version"), 10**30),
    (("base", "manifest_version"), True),
    (("base", "incarnation"), None),
    (("base", "schema_hash"), 7),
    (("tables",), {}),
    (("tables",), [7]),
    (("tables", 0), None),
    (("tables", 0, "table_key"), "node:Nope"),
    (("tables", 0, "table_key"), "table:main.x"),
    (("tables", 0, "operation"), "zap"),
    (("tables", 0, "operation"), "overwrite"),
    (("tables", 0, "rows"), 1.5),
    (("tables", 0, "spool"), "_staged/../_schema.pg"),
    (("tables", 0, "staged"), []),
    (("tables", 0, "staged", "path"), "../other/nodes/40d76f1f51639ec0"),
    (("tables", 0, "staged", "path"), "__manifest"),
    (("tables", 0, "staged", "branch"), "../.."),
    (("tables", 0, "staged", "base_version"), "2"),
    (("tables", 0, "staged", "kind"), "delete"),
    (("tables", 0, "staged", "rows"), -1),
    (("tables", 0, "staged", "folded"), -1),
    (("reads",), [7]),
    (("nodes",), [["Person"]]),
    (("nodes",), [["Person", "2"]]),
    (("provenance",), None),
    (("provenance", "writer_kind"), "Recovery"),
    (("provenance", "actor"), "omnigraph:recovery"),
    (("provenance", "actor"), "caf\udce9"),
    (("provenance", "message"), {"a": 1}),
    (("provenance", "idempotency_key"), 7),
    (("rejected",), float("nan")),
    (("rejected",), -1),
]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=lambda part: ascii(part)[:40])
def test_a_member_of_the_wrong_kind_is_refused_when_the_text_is_read(
    graph: og.Graph, path: tuple[Any, ...], value: Any
) -> None:
    entry = staged(graph)
    inner: Any = entry
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(errors.BadRequest):
        StagedLoad.from_json(json.dumps(entry))


@pytest.mark.parametrize("text", ["[" * 100_000, "x" * 10, "null", "7", "[]", '{"format": 4}', "1" * 5000, "\ud800"])
def test_a_text_that_is_no_load_is_refused(text: str) -> None:
    with pytest.raises(errors.BadRequest, match="not a staged load"):
        StagedLoad.from_json(text)


# Files ---------------------------------------------------------------------------------------------------------------


def _elsewhere(entry: Entry) -> None:
    fragments(entry)[0]["files"][0]["path"] = "../../../../other/nodes/40d76f1f51639ec0/data/x.lance"


def _absolute(entry: Entry) -> None:
    fragments(entry)[0]["files"][0]["path"] = "/etc/passwd"


def _missing(entry: Entry) -> None:
    fragments(entry)[0]["files"][0]["path"] = "nope.lance"


def _other_base(entry: Entry) -> None:
    fragments(entry)[0]["files"][0]["base_id"] = 5


def _rows_of_a_fragment(entry: Entry) -> None:
    fragments(entry)[0]["physical_rows"] = 1000


def _rows(entry: Entry) -> None:
    table(entry)["rows"] = 7


def _rows_of_the_write(entry: Entry) -> None:
    table(entry)["staged"]["rows"] = 7


def _counts(entry: Entry) -> None:
    entry["nodes"] = [["Person", 1000]]


def _fields(entry: Entry) -> None:
    fragments(entry)[0]["files"][0]["fields"] = [0, 3, 2, 1]


def _columns(entry: Entry) -> None:
    fragments(entry)[0]["files"][0]["column_indices"] = [3, 2, 1, 0]


def _twice(entry: Entry) -> None:
    fragment = fragments(entry)[0]
    table(entry)["staged"]["transaction"]["append"]["fragments"].append(copy.deepcopy(fragment))


def _deleted(entry: Entry) -> None:
    deleted = {"file_type": "array", "id": 1, "num_deleted_rows": 1, "read_version": 1, "base_id": None}
    fragments(entry)[0]["deletion_file"] = deleted


def _folded(entry: Entry) -> None:
    table(entry)["staged"]["folded"] = 1


def _of_the_other_table(entry: Entry) -> None:
    ours, theirs = table(entry)["staged"]["transaction"], table(entry, "edge:Knows")["staged"]["transaction"]
    ours["append"], theirs["append"] = theirs["append"], ours["append"]


def _uuid(entry: Entry) -> None:
    table(entry)["staged"]["transaction_uuid"] = table(entry, "edge:Knows")["staged"]["transaction_uuid"]


def _base_version(entry: Entry) -> None:
    table(entry)["staged"]["base_version"] = 1


def _read_version(entry: Entry) -> None:
    table(entry)["staged"]["transaction"]["read_version"] = 99


def _overwrites(entry: Entry) -> None:
    transaction = table(entry)["staged"]["transaction"]
    transaction["overwrite"] = {"fragments": transaction.pop("append")["fragments"], "schema": ""}


def _updates(entry: Entry) -> None:
    """An update that loses the rows that are there."""
    transaction = table(entry)["staged"]["transaction"]
    new = transaction.pop("append")["fragments"]
    update = {"removed": [0], "updated": [], "new": new, "fields_modified": [], "fields_kept": [], "mode": "rewrite_rows"}
    table(entry)["operation"], table(entry)["staged"]["kind"] = "merge", "merge"
    transaction["update"] = update


@pytest.mark.parametrize(
    "damage",
    [
        _elsewhere,
        _absolute,
        _missing,
        _other_base,
        _rows_of_a_fragment,
        _rows,
        _rows_of_the_write,
        _counts,
        _fields,
        _columns,
        _twice,
        _deleted,
        _folded,
        _of_the_other_table,
        _uuid,
        _base_version,
        _read_version,
        _overwrites,
    ],
    ids=lambda damage: damage.__name__.strip("_"),
)
def test_files_that_are_not_what_the_text_says_are_refused(graph: og.Graph, damage: Callable[[Entry], None]) -> None:
    entry, before = staged(graph), list(graph.export())
    files = {path for path in Path(graph.uri).rglob("*.lance") if path.is_file() and "_staged" not in path.parts}
    damage(entry)

    with pytest.raises((errors.BadRequest, errors.NotFound)):
        publish(graph, entry)
    for other in (look, remove):  # those that do not read rows may go on; they change nothing that is shown
        try:
            other(graph, entry)
        except (errors.BadRequest, errors.NotFound, errors.Storage):
            continue

    assert list(og.connect(graph.uri).export()) == before
    assert len({path for path in files if path.exists()}) >= len(files) - 2
    graph.load([person("after")], mode="append")
    assert len(list(graph.export())) == len(before) + 1


FRAGMENT = ("id", "files", "physical_rows", "deletion_file", "row_id_meta")
FILE = ("fields", "column_indices", "file_major_version", "file_minor_version", "file_size_bytes", "base_id", "path")
NEVER: list[Any] = [2**70, -1, 0.5, True, "x", [2**70], [None], {}, {"Inline": [256]}, {"x": []}, {"Inline": 7}]
"""What no member of a fragment may be."""
SOMETIMES: list[Any] = [None, [], {"Inline": [1, 2, 3]}]


def test_every_member_of_a_fragment_is_checked(graph: og.Graph) -> None:
    text = json.dumps(staged(graph))
    for member, value in product((*FRAGMENT, *FILE), [*NEVER, *SOMETIMES]):
        entry: Entry = json.loads(text)
        (fragments(entry)[0]["files"][0] if member in FILE else fragments(entry)[0])[member] = value
        refusal = pytest.raises(errors.BadRequest, match=r"not a staged write|not its own")
        with suppress(errors.BadRequest) if value in SOMETIMES else refusal:
            StagedHandle.from_dict(table(entry)["staged"])


@pytest.mark.parametrize("member", ["removed", "updated", "new", "fields_modified", "fields_kept", "mode"])
def test_every_member_of_an_update_is_checked(graph: og.Graph, member: str) -> None:
    text = json.dumps(staged(graph, [person("A", age=5)], "merge"))
    for value in [2**70, -1, 0.5, True, [2**70], [None], [[1]], [{}], {}]:
        entry: Entry = json.loads(text)
        table(entry)["staged"]["transaction"]["update"][member] = value
        with pytest.raises(errors.BadRequest, match="not a staged write"):
            StagedHandle.from_dict(table(entry)["staged"])


def test_what_a_merge_may_name_is_not_refused(graph: og.Graph) -> None:
    entry = table(staged(graph, [person("A", age=5)], "merge"))["staged"]
    (updated,) = entry["transaction"]["update"]["updated"]
    for drawn in (0, 2**63, 2**64 - 1):
        updated["deletion_file"]["id"] = drawn
        StagedHandle.from_dict(entry)
    for value in (-1, 2**64, None, "x"):
        updated["deletion_file"]["id"] = value
        with pytest.raises(errors.BadRequest, match="not a staged write"):
            StagedHandle.from_dict(entry)


@pytest.mark.parametrize("value", [2**70, None, "x", []])
def test_a_fragment_with_no_number_is_refused_before_anything_is_published(graph: og.Graph, value: Any) -> None:
    entry = staged(graph)
    fragments(entry)[0]["id"] = value
    with pytest.raises(errors.BadRequest, match="not a staged write"):
        publish(graph, entry)


@pytest.mark.parametrize("number", [0, 1, 2**31 - 1])
def test_the_number_of_a_new_fragment_is_given_by_its_table(graph: og.Graph, number: int) -> None:
    graph.load([person("D")], mode="append")
    entry = staged(graph)
    fragments(entry)[0]["id"] = number
    publish(graph, entry)
    graph.load([person("A", age=7)], mode="merge")
    graph.mutate('query q() { delete Person where name = "X" }')
    assert {json.loads(line)["data"]["name"] for line in graph.export(types=["Person"])} == {*"ABCDY"}


def test_a_write_that_says_it_merges_loses_no_rows(graph: og.Graph) -> None:
    entry = staged(graph)
    _updates(entry)
    publish(graph, entry)
    assert {json.loads(text)["data"]["name"] for text in graph.export(types=["Person"])} == {*"ABCXY"}


def test_files_that_a_version_has_are_not_removed_with_a_staged_load(graph: og.Graph) -> None:
    data = Path(graph.uri) / graph.snapshot().entries["node:Person"].path / "data"
    (live,) = (path.name for path in data.glob("*.lance"))
    entry, before = staged(graph), list(graph.export())
    fragments(entry)[0]["files"][0]["path"] = live

    with pytest.raises(errors.BadRequest, match="a second time"):
        publish(graph, entry)
    remove(graph, entry)

    assert list(og.connect(graph.uri).export()) == before


# Rules of the schema -------------------------------------------------------------------------------------------------


def _without(entry: Entry, key: str) -> None:
    entry["tables"] = [each for each in entry["tables"] if each["table_key"] != key]
    entry["nodes"] = [each for each in entry["nodes"] if f"node:{each[0]}" != key]
    entry["edges"] = [each for each in entry["edges"] if f"edge:{each[0]}" != key]
    entry["reads"] = [each for each in entry["reads"] if each != key]


@pytest.mark.parametrize("branch", ["main", "side"])
def test_edges_to_nodes_that_were_taken_out_are_not_published(graph: og.Graph, branch: str) -> None:
    graph.create_branch("side")
    entry: Entry = json.loads(graph.stage(NEXT, mode="append", branch=branch).to_json())
    _without(entry, "node:Person")
    entry["reads"] = []
    with pytest.raises(errors.ValidationFailed):
        publish(graph, entry)
    assert len(list(graph.export(branch))) == len(FIRST)


def test_rows_of_another_load_are_validated_like_any_other(graph: og.Graph) -> None:
    """Files of a load that was staged before, with keys that exist by now."""
    first = staged(graph, [person("X", tag="x")])
    graph.load([person("X")], mode="append")
    entry = staged(graph, [person("Z")])
    table(entry)["staged"]["transaction"]["append"] = table(first)["staged"]["transaction"]["append"]
    with pytest.raises(errors.KeyConflict):
        publish(graph, entry)
    assert len(list(graph.export())) == 4


def test_values_that_the_schema_forbids_are_refused(tmp_path: Path, graph: og.Graph) -> None:
    """The files of a graph whose schema allows more, under names of this one."""
    loose = og.init(tmp_path / "loose", SCHEMA.replace("@range(age, 0..150)", ""))
    loose.load(FIRST, mode="append")
    theirs, entry = staged(loose, [person("X", age=900)]), staged(graph, [person("X", age=9)])
    place = graph.snapshot().entries["node:Person"].path
    name = fragments(theirs)[0]["files"][0]["path"]
    (Path(graph.uri) / place / "data" / name).write_bytes((Path(loose.uri) / place / "data" / name).read_bytes())
    table(entry)["staged"]["transaction"]["append"] = table(theirs)["staged"]["transaction"]["append"]
    with pytest.raises(errors.ValidationFailed):
        publish(graph, entry)


def test_a_load_of_another_schema_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    entry = staged(graph)
    entry["base"]["schema_hash"] = "0" * len(entry["base"]["schema_hash"])
    with pytest.raises(errors.Conflict) as refused:
        publish(graph, entry)
    assert refused.value.reason == "schema changed"
    other = og.connect(tmp_path / "other")
    with pytest.raises(errors.OmnigraphError):
        publish(other, staged(graph))


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_that_waited_is_published_as_it_was_staged(graph: og.Graph, mode: LoadMode) -> None:
    records = [*NEXT, person("A", age=99, tag="a")] if mode != "append" else NEXT
    entry = staged(graph, records, mode)
    twin = og.init(f"{graph.uri}-twin", SCHEMA)
    twin.load(FIRST, mode="append")
    twin.load(records, mode=mode)
    publish(graph, entry)
    people = [list(each.export(types=["Person"])) for each in (graph, twin)]
    assert people[0] == people[1]
    assert len(list(graph.export())) == len(list(twin.export()))
