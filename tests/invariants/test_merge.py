"""Invariants of merges: what becomes of every row, which rules hold of the merged graph, and what stays as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.writes.merge.merges import MergeResult
from tests.crash.world import assert_settled, place_of
from tests.merges import EDGES, Id, Rows, edge, fingerprint, founded, node, put, remove, shown, versions
from tests.stores import Place

DIRECTIONS = ["up", "down"]
"""From a branch into main, and from main into a branch."""
Conflicts = list[tuple[str, str, str | None]]


def sides(direction: str) -> tuple[str, str]:
    """Source and target."""
    return ("draft", "main") if direction == "up" else ("main", "draft")


def conflicts_of(error: errors.MergeConflicts) -> Conflicts:
    return [(conflict.kind, conflict.type_name, conflict.id) for conflict in error.conflicts]


def refused(graph: og.Graph, source: str, target: str, **options: Any) -> Conflicts:
    """The conflicts of a merge, which must leave everything as it was."""
    place = place_of(graph)
    before = fingerprint(place)
    with pytest.raises(errors.MergeConflicts) as met:
        graph.merge(source, target, **options)
    assert fingerprint(place) == before, "a merge with conflicts has written something"
    return conflicts_of(met.value)


# The operation truth table -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edit:
    """What one side does, as an operation on the graph and as what it makes of the rows."""

    run: Callable[[og.Graph, str], object]
    rows: dict[Id, dict[str, Any] | None]
    """New rows by type and id; None for those that go."""


def person(name: str, **data: Any) -> tuple[str, Rows]:
    return node("Person", name, **data), {("Person", name): {"id": name, "name": name, **data}}


def note(mark: str, **data: Any) -> tuple[str, Rows]:
    return node("Note", mark, **data), {("Note", mark): {"id": mark, "mark": mark, **data}}


def link(kind: str, mark: str, start: str, end: str, **data: Any) -> tuple[str, Rows]:
    row = {"from": start, "to": end, "id": mark, "mark": mark, **data}
    return edge(kind, mark, start, end, **data), {(kind, mark): row}


def putting(*records: tuple[str, Rows]) -> Edit:
    rows: dict[Id, dict[str, Any] | None] = {}
    for _, made in records:
        rows |= made
    return Edit(lambda graph, branch: put(graph, branch, *(text for text, _ in records)), rows)


def removing(*gone: Id, along: tuple[Id, ...] = ()) -> Edit:
    def run(graph: og.Graph, branch: str) -> None:
        for kind, row_id in gone:
            remove(graph, branch, kind, row_id)

    return Edit(run, dict.fromkeys([*gone, *along]))


def inserted(tag: str, value: str = "") -> Edit:
    """A node with everything, and one without a key."""
    return putting(
        person(f"neu-{tag}", age=1, tags=["é", value], spot=[0.25, 0.5, 1.0], nick="", _row_note=value),
        note(f"note-{tag}", text=value, rank=1.5),
    )


def updated(mark: tuple[str, str], value: str) -> Edit:
    name, text = mark
    return putting(person(name, age=7, tags=[value], spot=[1.0, 1.0, 1.0], _row_note=value), note(text, text=value))


def wandering(tag: str) -> Edit:
    """Edits that come to nothing."""

    def run(graph: og.Graph, branch: str) -> None:
        put(graph, branch, node("Person", f"away-{tag}"), edge("Knows", f"away-{tag}", "bob", "bob"))
        remove(graph, branch, "Person", f"away-{tag}")
        remove(graph, branch, "Knows", f"away-{tag}")

    return Edit(run, {})


def edits(operation: str, side: str) -> Edit:
    """An operation of one side, on rows of its own."""
    own = {"source": ("änn", "n3"), "target": ("сид", "n2")}[side]
    match operation:
        case "none":
            return Edit(lambda *_: None, {})
        case "node insert":
            return inserted(side)
        case "node delete":
            if side == "source":
                return removing(("Person", "dee"), ("Note", "n3"), along=(("Knows", "k3"),))
            return removing(("Person", "eve"), ("Note", "n1"), along=(("Cites", "c1"),))
        case "edge insert":
            return putting(
                link("Knows", f"new-{side}", "bob", "bob", since=9, words=["ß"]), link("Cites", f"new-{side}", "n2", "n2")
            )
        case "edge delete":
            return removing(("Knows", "k1" if side == "target" else "k2"))
        case "node update":
            return updated(own, f"by {side}")
        case "net-zero":
            return wandering(side)
    raise AssertionError(operation)


OPERATIONS = ["none", "node insert", "node delete", "edge insert", "edge delete", "node update", "net-zero"]
CLEAN = [(first, second) for first in OPERATIONS for second in OPERATIONS]

SHARED: dict[tuple[str, str, str], tuple[Edit, Edit, Conflicts]] = {
    ("node insert", "node insert", "equal"): (inserted("x", "v"), inserted("x", "v"), []),
    ("node insert", "node insert", "other"): (
        inserted("x", "v"),
        inserted("x", "w"),
        [("DivergentInsert", "Note", "note-x"), ("DivergentInsert", "Person", "neu-x")],
    ),
    ("node delete", "node delete", "same"): (
        removing(("Person", "eve"), ("Note", "n3")),
        removing(("Person", "eve"), ("Note", "n3")),
        [],
    ),
    ("node delete", "edge insert", "needed"): (
        removing(("Person", "eve"), ("Note", "n3")),
        putting(link("Knows", "new", "bob", "eve"), link("Cites", "new", "n3", "n1")),
        [("OrphanEdge", "Cites", "new"), ("OrphanEdge", "Knows", "new")],
    ),
    ("node delete", "node update", "same"): (
        removing(("Person", "eve"), ("Note", "n3")),
        updated(("eve", "n3"), "v"),
        [("DeleteVsUpdate", "Note", "n3"), ("DeleteVsUpdate", "Person", "eve")],
    ),
    ("edge insert", "node delete", "needed"): (
        putting(link("Knows", "new", "eve", "bob"), link("Cites", "new", "n1", "n3")),
        removing(("Person", "eve"), ("Note", "n3")),
        [("OrphanEdge", "Cites", "new"), ("OrphanEdge", "Knows", "new")],
    ),
    ("edge insert", "edge insert", "same ends"): (
        putting(link("Knows", "one", "bob", "eve")),
        putting(link("Knows", "two", "bob", "eve")),
        [],
    ),
    ("edge delete", "edge delete", "same"): (removing(("Knows", "k1")), removing(("Knows", "k1")), []),
    ("node update", "node delete", "same"): (
        updated(("eve", "n3"), "v"),
        removing(("Person", "eve"), ("Note", "n3")),
        [("DeleteVsUpdate", "Note", "n3"), ("DeleteVsUpdate", "Person", "eve")],
    ),
    ("node update", "node update", "equal"): (updated(("eve", "n3"), "v"), updated(("eve", "n3"), "v"), []),
    ("node update", "node update", "other"): (
        updated(("eve", "n3"), "v"),
        updated(("eve", "n3"), "w"),
        [("DivergentUpdate", "Note", "n3"), ("DivergentUpdate", "Person", "eve")],
    ),
}


def after(rows: Rows, *both: Edit) -> Rows:
    result = dict(rows)
    for side in both:
        for key, row in side.rows.items():
            if row is None:
                result.pop(key, None)
            else:
                result[key] = row
    return result


def outcome_of(source: str, target: str) -> str:
    if source == "none":
        return "already_up_to_date"
    return "fast_forward" if target == "none" else "merged"


def check_merged(graph: og.Graph, source: str, target: str, outcome: str) -> MergeResult:
    """Invariant 43: a merge is a commit of two parents, and repeating it changes nothing."""
    heads = {branch: graph.snapshot(branch=branch).commit_id for branch in (source, target)}
    before = graph.snapshot(branch=target)
    preview = graph.merge(source, target, dry_run=True)
    assert graph.snapshot(branch=target) == before
    result = graph.merge(source, target, actor="meg", message="both")
    assert (result.outcome, preview.outcome) == (outcome, outcome)
    assert (preview.changes, preview.conflicts, preview.commit) == (result.changes, (), None)
    if outcome == "already_up_to_date":
        assert result.commit is None
        assert graph.snapshot(branch=target) == before
    else:
        assert result.commit is not None
        assert result.commit.parents == (heads[target], heads[source])
        assert (result.commit.actor_id, result.commit.message) == ("meg", "both")
        assert graph.snapshot(branch=target).commit_id == result.commit.graph_commit_id
    head = graph.snapshot(branch=target)
    again = graph.merge(source, target)
    assert (again.outcome, again.commit) == ("already_up_to_date", None)
    assert graph.snapshot(branch=target) == head
    assert graph.snapshot(branch=source).commit_id == heads[source], "the source has moved"
    return result


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("first", "second"), CLEAN, ids=lambda name: name)
def test_invariant_41_operations_on_rows_of_their_own_meet(place: Place, first: str, second: str, direction: str) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    source, target = sides(direction)
    base, ours, theirs = shown(graph), edits(second, "target"), edits(first, "source")
    ours.run(graph, target)
    theirs.run(graph, source)
    theirs_before, entries = shown(graph, source), graph.snapshot(branch=target).entries

    result = check_merged(graph, source, target, outcome_of(first, second))

    assert shown(graph, target) == after(base, ours, theirs)
    assert shown(graph, source) == theirs_before
    counted = sum(counts.inserts + counts.updates + counts.deletes for counts in result.changes.values())
    assert counted == (0 if first == "none" else len(theirs.rows))
    if first == "net-zero":
        assert graph.snapshot(branch=target).entries == entries, "a net change of nothing has moved a table"


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", SHARED, ids="-".join)
def test_invariant_41_operations_on_the_same_rows(place: Place, cell: tuple[str, str, str], direction: str) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    source, target = sides(direction)
    theirs, ours, conflicts = SHARED[cell]
    base = shown(graph)
    ours.run(graph, target)
    theirs.run(graph, source)

    if conflicts:
        assert refused(graph, source, target) == conflicts
        assert [
            (met.kind, met.type_name, met.id) for met in graph.merge(source, target, dry_run=True).conflicts
        ] == conflicts
        return
    check_merged(graph, source, target, "merged")
    assert shown(graph, target) == after(base, ours, theirs)
    assert_mergeable_back(graph, source, target)


def assert_mergeable_back(graph: og.Graph, source: str, target: str) -> None:
    assert graph.merge(target, source).outcome == "fast_forward"
    assert shown(graph, source) == shown(graph, target)


# The row decision table ----------------------------------------------------------------------------------------------

VALUES = ("-", "0", "1", "2")
CELLS = [(b, s, t) for b in "-0" for s in VALUES for t in VALUES]


def outcome(b: str, s: str, t: str) -> str:
    """The row decision table: the value of the merged row, or the kind of the conflict."""
    if s in (b, t):
        return t
    if t == b:
        return s
    if b == "-":
        return "DivergentInsert"
    return "DeleteVsUpdate" if "-" in (s, t) else "DivergentUpdate"


def valued(kind: str, row_id: str, value: str) -> str:
    """A record of a type with one of three values; the second differs from the first in nothing but null and empty text."""
    number = int(value)
    if kind == "Knows":
        return edge(kind, row_id, "bob", "dee", words=[[""], [], ["", ""]][number])
    if kind == "Cites":
        return edge(kind, row_id, "n1", "n2", why=[None, "", "\0"][number])
    data: dict[str, dict[str, Any]] = {
        "Person": {"nick": [None, "", "a"][number], "tags": [["a,b"], ["a", "b"], ["a", "b"]][number]},
        "Note": {"text": "x", "rank": [0.0, -0.0, 1.0][number]},
        "Photo": {"spot": [[0.0, 1.0], [0.0, 1.0], [-0.0, 1.0]][number], "image": f"base64:{'ABC'[number]}AAA"},
    }
    return node(kind, row_id, **data[kind])


KINDS = ("Person", "Note", "Photo", "Knows", "Cites")


def row_id(cell: tuple[str, str, str]) -> str:
    return "row" + "".join(cell)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("decision", [None, "ours", "theirs"])
def test_invariant_41_the_row_decision_table_cell_by_cell(place: Place, direction: str, decision: str | None) -> None:
    """Invariants 41 and 45: null is not the empty text, a list not its joined text, and a zero not the negative one."""
    graph = founded(place / "g")
    put(graph, "main", *(valued(kind, row_id(cell), "0") for cell in CELLS if cell[0] == "0" for kind in KINDS))
    graph.create_branch("draft")
    source, target = sides(direction)
    for branch, place_in_cell in ((source, 1), (target, 2)):
        changed = [cell for cell in CELLS if cell[place_in_cell] != cell[0]]
        put(
            graph,
            branch,
            *(
                valued(kind, row_id(cell), cell[place_in_cell])
                for cell in changed
                for kind in KINDS
                if cell[place_in_cell] != "-"
            ),
        )
        for cell in changed:
            if cell[place_in_cell] == "-":
                for kind in ("Knows", "Cites", "Person", "Note", "Photo"):
                    remove(graph, branch, kind, row_id(cell))
    wanted = sorted((outcome(*cell), kind, row_id(cell)) for cell in CELLS for kind in KINDS if len(outcome(*cell)) > 1)
    ours, theirs = shown(graph, target), shown(graph, source)
    touched = versions(graph, "node:Person", target)

    if decision is None:
        assert sorted(refused(graph, source, target), key=str) == wanted
        return
    result = graph.merge(source, target, resolve=decision)

    assert result.resolved == len(wanted)
    merged = shown(graph, target)
    for cell in CELLS:
        which = outcome(*cell)
        value = which if len(which) == 1 else cell[2 if decision == "ours" else 1]
        expected = ours if value == cell[2] else theirs
        for kind in KINDS:
            assert merged.get((kind, row_id(cell))) == expected.get((kind, row_id(cell))), (cell, kind)
            assert ((kind, row_id(cell)) in merged) == (value != "-")
    kept = [row_id(cell) for cell in CELLS if cell[2] != "-" and outcome(*cell) == cell[2]]
    now = versions(graph, "node:Person", target)
    assert {name: now[name] for name in kept} == {name: touched[name] for name in kept}
    assert_settled(graph)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_edits_of_different_properties_meet_column_by_column(place: Place, direction: str) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    source, target = sides(direction)
    base = shown(graph)["Person", "änn"]
    put(
        graph,
        source,
        node("Person", "änn", **{key: base[key] for key in ("nick", "tags", "_row_note")}, age=31, spot=[9, 9, 9]),
    )
    put(graph, target, node("Person", "änn", **{key: base[key] for key in ("nick", "spot")}, age=30, tags=["z"]))
    put(graph, source, edge("Knows", "k1", "änn", "bob", since=5, words=["x", ""]))
    put(graph, target, edge("Knows", "k1", "änn", "bob", since=1, words=["y"]))
    put(graph, source, node("Photo", "p1", image="base64:AAEC", spot=[5, 5]))
    put(graph, target, node("Photo", "p1", image="base64:AAAA", spot=[1, 0]))

    assert refused(graph, source, target) == [
        ("DivergentUpdate", "Knows", "k1"),
        ("DivergentUpdate", "Person", "änn"),
        ("DivergentUpdate", "Photo", "p1"),
    ]
    result = graph.merge(source, target, granularity="column")

    merged = shown(graph, target)
    assert merged["Person", "änn"] == {
        "id": "änn",
        "name": "änn",
        "age": 31,
        "nick": "",
        "tags": ["z"],
        "spot": [9.0, 9.0, 9.0],
    }
    assert (merged["Knows", "k1"]["since"], merged["Knows", "k1"]["words"]) == (5, ["y"])
    assert (merged["Photo", "p1"]["image"], merged["Photo", "p1"]["spot"]) == ("base64:AAAA", [5.0, 5.0])
    assert {key: counts.updates for key, counts in result.changes.items()} == {
        "edge:Knows": 1,
        "node:Person": 1,
        "node:Photo": 1,
    }
    assert_settled(graph)


def test_columns_that_both_sides_changed_are_in_conflict_and_named(place: Place) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    put(
        graph, "draft", node("Person", "dee", age=1, nick="a", mood="sad"), node("Person", "bob", age=2, tags=[], mood="sad")
    )
    put(
        graph,
        "main",
        node("Person", "dee", age=2, nick="a", tags=["t"]),
        node("Person", "bob", age=40, tags=["t"], mood="glad"),
    )

    conflicts = graph.merge("draft", granularity="column", dry_run=True).conflicts
    assert [(conflict.id, conflict.properties) for conflict in conflicts] == [("dee", ("age",))]
    rows = graph.merge("draft", dry_run=True).conflicts
    assert [(conflict.id, conflict.properties) for conflict in rows] == [
        ("bob", ("age", "tags", "mood")),
        ("dee", ("age", "tags", "mood")),
    ]


# Nothing but what changed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_invariant_44_unchanged_rows_keep_their_versions_and_row_ids(place: Place, direction: str) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    source, target = sides(direction)
    put(graph, target, node("Person", "dee", age=21), edge("Knows", "k3", "dee", "bob", since=4))
    put(graph, source, node("Person", "bob", age=41), node("Person", "new"), edge("Knows", "k2", "bob", "сид", since=9))
    remove(graph, source, "Person", "eve")
    keys = {"node:Person": ({"bob"}, {"new"}), "edge:Knows": ({"k2"}, set[str]()), "node:Note": (set[str](), set[str]())}
    before = {key: versions(graph, key, target) for key in keys}

    graph.merge(source, target)

    for key, (changed, added) in keys.items():
        now = versions(graph, key, target)
        newest = graph.snapshot(branch=target).entry(key).version
        assert now.keys() == before[key].keys() - {"eve"} | added
        for name in now.keys() - changed - added:
            assert now[name] == before[key][name], "an unchanged row was written"
        for name in changed:
            assert now[name][:2] == before[key][name][:2], "a changed row has lost its identity"
            assert now[name][2] == newest
        assert {now[name][1:] for name in added} <= {(newest, newest)}


def test_rows_that_were_written_again_as_they_were_are_no_change(place: Place) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    everything = list(graph.export())
    graph.load(everything, mode="merge", branch="draft")
    put(graph, "main", node("Person", "dee", age=99), node("Photo", "p1", image="base64:AAAA"))
    before = shown(graph), {key: versions(graph, key) for key in ("node:Person", "node:Photo", "edge:Knows")}

    result = check_merged(graph, "draft", "main", "merged")

    assert result.changes == {}
    assert (shown(graph), {key: versions(graph, key) for key in before[1]}) == before
    assert graph.merge("main", "draft").outcome == "fast_forward"
    assert shown(graph, "draft") == before[0]


def test_blobs_are_compared_and_carried_by_content(place: Place) -> None:
    graph = founded(place / "g")
    small, packed, large = (bytes([number]) * size for number, size in ((1, 20), (2, 100_000), (3, 5_000_000)))

    def photos(branch: str, **images: bytes) -> None:
        table = pa.table({"name": [*images], "image": pa.array([*images.values()], pa.large_binary())})
        graph.load({"Photo": table}, mode="merge", branch=branch)

    photos("main", a=small, b=packed, c=large)
    graph.create_branch("draft")
    photos("draft", a=small, b=packed, c=large, d=packed, e=small)
    photos("main", e=small, c=large)
    base = shown(graph)
    photos("draft", b=large[:70_000])

    result = graph.merge("draft")

    assert (result.changes["node:Photo"].inserts, result.changes["node:Photo"].updates) == (1, 1)
    assert shown(graph) == shown(graph, "draft")
    assert {row for row, data in shown(graph).items() if base.get(row) != data} == {("Photo", "b"), ("Photo", "d")}
    photos("main", c=large + b"x")
    photos("draft", c=large + b"y", a=small)
    assert refused(graph, "draft", "main") == [("DivergentUpdate", "Photo", "c")]
    graph.merge("draft", resolve="theirs")
    assert shown(graph)["Photo", "c"] == shown(graph, "draft")["Photo", "c"]


def test_invariant_45_what_looks_alike_is_told_apart(place: Place) -> None:
    graph = founded(place / "g")
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"nick": None}, {"nick": ""}),
        ({"nick": "a", "street": "b"}, {"nick": "ab", "street": ""}),
        ({"nick": "a\0b", "street": ""}, {"nick": "a", "street": "b"}),
        ({"tags": None}, {"tags": []}),
        ({"tags": []}, {"tags": [""]}),
        ({"tags": ["a", "b"]}, {"tags": ["a,b"]}),
        ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}),
        ({"_row_note": None}, {"_row_note": ""}),
        ({"_row_note": "1"}, {"_row_note": "2"}),
        ({"nick": "é"}, {"nick": "e\u0301"}),
        ({"spot": [0.0, 0.0, 0.0]}, {"spot": [0.0, -0.0, 0.0]}),
        ({"age": None}, {"age": 0}),
    ]
    graph.create_branch("draft")
    put(graph, "draft", *(node("Person", f"x{number}", **data) for number, (data, _) in enumerate(pairs)))
    put(graph, "main", *(node("Person", f"x{number}", **data) for number, (_, data) in enumerate(pairs)))

    met = refused(graph, "draft", "main")

    assert sorted(met, key=str) == sorted(
        (("DivergentInsert", "Person", f"x{number}") for number in range(len(pairs))), key=str
    )


def test_not_a_number_equals_itself(place: Place) -> None:
    """Only relational tables can hold it."""
    graph = founded(place / "g")
    graph.create_branch("draft")
    for branch, values in (("main", [math.nan, 0.0]), ("draft", [-0.0, math.nan])):
        graph.tables(branch).create_table("main", "one", pa.table({"x": [math.nan, -0.0]}))
        graph.tables(branch).create_table("main", "two", pa.table({"x": values}))

    assert refused(graph, "draft", "main") == [("DivergentTable", "main.two", None)]


def test_a_merge_of_one_branch_leaves_all_others_alone(place: Place) -> None:
    graph = founded(place / "g")
    for name in ("draft", "other"):
        graph.create_branch(name)
        put(graph, name, node("Person", "bob", age=len(name)))
    others = shown(graph, "other"), graph.snapshot(branch="other")

    graph.merge("draft")

    assert (shown(graph, "other"), graph.snapshot(branch="other")) == others


# The merged graph ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broken:
    """What both sides do, each of it sound by itself, and the conflicts of it."""

    one: Callable[[og.Graph, str], object]
    other: Callable[[og.Graph, str], object]
    conflicts: Conflicts
    members: set[Id]
    seed: tuple[str, ...] = ()


def puts(*records: str) -> Callable[[og.Graph, str], object]:
    return lambda graph, branch: put(graph, branch, *records)


def removes(*gone: Id) -> Callable[[og.Graph, str], object]:
    def run(graph: og.Graph, branch: str) -> None:
        for kind, name in gone:
            remove(graph, branch, kind, name)

    return run


def also(*steps: Callable[[og.Graph, str], object]) -> Callable[[og.Graph, str], object]:
    def run(graph: og.Graph, branch: str) -> None:
        for step in steps:
            step(graph, branch)

    return run


BROKEN = {
    "an edge to a node that the other side deleted": Broken(
        puts(edge("Knows", "new", "bob", "eve")),
        removes(("Person", "eve")),
        [("OrphanEdge", "Knows", "new")],
        {("Knows", "new"), ("Person", "eve")},
    ),
    "an edge from a node that the other side deleted": Broken(
        puts(edge("Cites", "new", "n3", "n1")),
        removes(("Note", "n3")),
        [("OrphanEdge", "Cites", "new")],
        {("Cites", "new"), ("Note", "n3")},
    ),
    "both ends deleted": Broken(
        puts(edge("Knows", "new", "dee", "eve")),
        removes(("Person", "eve"), ("Person", "dee")),
        [("OrphanEdge", "Knows", "new"), ("OrphanEdge", "Knows", "new")],
        {("Knows", "new"), ("Person", "eve"), ("Person", "dee")},
    ),
    "an edge bent to a node that the other side deleted": Broken(
        puts(edge("Knows", "k2", "bob", "eve", since=2)),
        removes(("Person", "eve")),
        [("OrphanEdge", "Knows", "k2")],
        {("Knows", "k2"), ("Person", "eve")},
    ),
    "one value for a unique property": Broken(
        puts(node("Person", "x", email="one@x")),
        puts(node("Person", "y", email="one@x")),
        [("UniqueViolation", "Person", "y")],
        {("Person", "x"), ("Person", "y")},
    ),
    "a unique value taken over by one side and given by the other": Broken(
        also(puts(node("Person", "eve")), puts(node("Person", "dee", email="eve@x"))),
        puts(node("Person", "bob", email="bob@x")),
        [],
        set(),
    ),
    "a unique value given up by one side and kept by a change of the other": Broken(
        also(puts(node("Person", "eve")), puts(node("Person", "dee", email="eve@x"))),
        puts(node("Person", "eve", email="eve@x", age=5)),
        [("DivergentUpdate", "Person", "eve")],
        {("Person", "eve")},
    ),
    "one pair of values": Broken(
        puts(node("Person", "x", street="a", house=1), node("Person", "z", street="a", house=None)),
        puts(node("Person", "y", street="a", house=1), node("Person", "w", street="a", house=None)),
        [("UniqueViolation", "Person", "y")],
        {("Person", "x"), ("Person", "y")},
    ),
    "pairs that only look alike": Broken(
        puts(node("Person", "x", street="a1", house=1)), puts(node("Person", "y", street="a", house=11)), [], set()
    ),
    "two edges between the same nodes": Broken(
        puts(edge("Likes", "x", "bob", "dee")),
        puts(edge("Likes", "y", "bob", "dee"), edge("Likes", "z", "dee", "bob")),
        [("UniqueViolation", "Likes", "y")],
        {("Likes", "x"), ("Likes", "y")},
    ),
    "too many edges": Broken(
        puts(edge("Member", "x", "bob", "red")),
        puts(edge("Member", "y", "bob", "red"), edge("Member", "z", "bob", "red")),
        [("CardinalityViolation", "Member", None)],
        {("Member", "x"), ("Member", "y"), ("Member", "z")},
    ),
    "too many edges of a node that one side deleted": Broken(
        puts(edge("Member", "x", "bob", "red")),
        also(removes(("Person", "bob")), puts(node("Person", "new"))),
        [("OrphanEdge", "Member", "x")],
        {("Member", "x"), ("Person", "bob")},
    ),
    "too few edges": Broken(
        removes(("Lead", "l1")),
        removes(("Lead", "l2")),
        [("CardinalityViolation", "Lead", None)],
        {("Lead", "l1"), ("Lead", "l2")},
        seed=(edge("Lead", "l2", "red", "bob"),),
    ),
    "too few edges, because the other end went": Broken(
        removes(("Person", "eve")),
        removes(("Lead", "l2")),
        [("CardinalityViolation", "Lead", None)],
        {("Lead", "l2"), ("Lead", "l3")},
        seed=(node("Team", "blue"), edge("Lead", "l2", "blue", "bob"), edge("Lead", "l3", "blue", "eve")),
    ),
    "just as many edges as may be": Broken(
        puts(edge("Member", "x", "bob", "red")), puts(edge("Member", "y", "bob", "red")), [], set()
    ),
}


def forked(graph: og.Graph, branch: str) -> None:
    """Give a branch tables of its own, with the rows it had."""
    put(
        graph,
        branch,
        *(node("Person", name) for name in ("own",)),
        node("Note", "own"),
        node("Team", "own"),
        edge("Lead", "own", "own", "own"),
        edge("Knows", "own", "own", "own"),
    )


@pytest.mark.parametrize("lineages", ["adopted", "forked"])
@pytest.mark.parametrize("swapped", [False, True], ids=["as is", "swapped"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", BROKEN)
def test_invariant_46_rules_between_rows_of_both_sides(
    place: Place, case: str, direction: str, swapped: bool, lineages: str
) -> None:
    broken = BROKEN[case]
    graph = founded(place / "g")
    if broken.seed:
        put(graph, "main", *broken.seed)
    graph.create_branch("draft")
    source, target = sides(direction)
    if lineages == "forked":
        for branch in (source, target):
            forked(graph, branch)
    first, second = (broken.other, broken.one) if swapped else (broken.one, broken.other)
    first(graph, source)
    second(graph, target)

    if not broken.conflicts:
        check_merged(graph, source, target, "merged")
        assert_sound(shown(graph, target))
        return
    assert refused(graph, source, target) == broken.conflicts
    conflicts = graph.merge(source, target, dry_run=True).conflicts
    members = {(key.partition(":")[2], name) for conflict in conflicts for key, name in conflict.members}
    assert members == broken.members
    for side in ("ours", "theirs"):
        try:
            preview = graph.merge(source, target, resolve=side, dry_run=True)
        except errors.MergeConflicts:
            raise AssertionError(f"`{side}` decides not everything") from None
        assert preview.conflicts == (), f"`{side}` leaves conflicts"
    graph.merge(source, target, resolve="theirs")
    assert_sound(shown(graph, target))
    assert_settled(graph)


def assert_sound(rows: Rows) -> None:
    """The rules of the schema, in plain Python."""
    ends = {
        "Knows": ("Person", "Person"),
        "Member": ("Person", "Team"),
        "Lead": ("Team", "Person"),
        "Likes": ("Person", "Person"),
        "Cites": ("Note", "Note"),
    }
    edges = [(kind, row) for (kind, _), row in rows.items() if kind in EDGES]
    for kind, row in edges:
        assert (ends[kind][0], row["from"]) in rows, row
        assert (ends[kind][1], row["to"]) in rows, row
    for values in (
        [row["email"] for (kind, _), row in rows.items() if kind == "Person" and "email" in row],
        [
            (row["street"], row["house"])
            for (kind, _), row in rows.items()
            if kind == "Person" and {"street", "house"} <= {*row}
        ],
        [(row["from"], row["to"]) for kind, row in edges if kind == "Likes"],
    ):
        assert len(values) == len({*values})
    for kind, low, high in (("Member", 0, 2), ("Lead", 1, 2)):
        starts = [row["from"] for name, row in edges if name == kind]
        assert all(low <= starts.count(start) <= high for start in starts)
    leads = [row["from"] for kind, row in edges if kind == "Lead"]
    assert all(name in leads for kind, name in rows if kind == "Team"), "a team has lost its lead"


def test_invariant_46_a_table_taken_over_as_it_is_is_checked(place: Place) -> None:
    """Main's edges would be taken over by a pointer; the branch deleted a node that one of them needs."""
    graph = founded(place / "g")
    graph.create_branch("draft")
    remove(graph, "draft", "Person", "eve")
    put(graph, "main", edge("Likes", "new", "bob", "eve"))

    assert refused(graph, "main", "draft") == [("OrphanEdge", "Likes", "new")]
    put(graph, "main", edge("Likes", "new", "bob", "dee"))
    graph.merge("main", "draft")
    assert graph.snapshot(branch="draft").entry("edge:Likes") == graph.snapshot().entry("edge:Likes"), "not by pointer"
    assert_sound(shown(graph, "draft"))


@pytest.mark.parametrize(
    ("values", "kind", "name"),
    [({"age": 151}, "Person", "bob"), ({"mood": "odd"}, "Person", "bob"), ({"nick": "!"}, "Person", "bob")],
)
def test_invariant_46_values_that_a_decision_gives_obey_the_rules(
    place: Place, values: dict[str, Any], kind: str, name: str
) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    put(graph, "draft", node(kind, name, age=1))
    put(graph, "main", node(kind, name, age=2))

    met = refused(graph, "draft", "main", resolve=[{"type": kind, "id": name, "values": values}])

    assert met == [("ValueConstraintViolation", kind, name)]


def test_conflicts_come_in_the_order_of_table_id_and_kind(place: Place) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    names = ["z", "a", "m", "Z", "ä", "0"]
    put(graph, "draft", *(node("Person", name, age=1) for name in names), edge("Knows", "q", "bob", "bob", since=1))
    put(graph, "main", *(node("Person", name, age=2) for name in names), edge("Knows", "q", "bob", "bob", since=2))

    met = refused(graph, "draft", "main")

    assert met == [("DivergentInsert", "Knows", "q"), *(("DivergentInsert", "Person", name) for name in sorted(names))]


# Whose branches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [
        ("main", "main", "BadRequest"),
        ("draft", "draft", "BadRequest"),
        (" draft ", "draft", "BadRequest"),
        ("nowhere", "main", "NotFound"),
        ("draft", "nowhere", "NotFound"),
        ("__schema_apply_lock__", "main", "BadRequest"),
        ("draft", "__schema_apply_lock__", "BadRequest"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_branches_that_cannot_be_merged(place: Place, source: str, target: str, kind: str, dry: bool) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    put(graph, "draft", node("Person", "new"))
    before = fingerprint(place / "g")

    with pytest.raises(errors.OmnigraphError) as refusal:
        graph.merge(source, target, dry_run=dry)

    assert refusal.value.kind == kind
    assert refusal.value.hint
    assert fingerprint(place / "g") == before


def test_the_source_is_deleted_afterwards_and_a_refusal_fails_nothing(place: Place) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    put(graph, "draft", node("Person", "new"))
    graph.create_branch("child", "draft")

    kept = graph.merge("draft", delete_source=True)
    assert (kept.outcome, kept.branch_deleted) == ("fast_forward", False)
    assert "child" in str(kept.branch_delete_error)
    graph.delete_branch("child")
    gone = graph.merge("draft", delete_source=True)
    assert (gone.outcome, gone.branch_deleted, gone.branch_delete_error) == ("already_up_to_date", True, None)
    assert graph.branches() == ["main"]
    assert ("Person", "new") in shown(graph)
    with pytest.raises(errors.BadRequest, match="cannot be deleted"):
        graph.create_branch("other") and graph.merge("main", "other", delete_source=True)
    assert_settled(graph)
