"""Decisions about the conflicts of a merge: their forms, which of them holds, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.crash.world import assert_settled
from tests.merges import Rows, edge, fingerprint, founded, node, put, remove, shown
from tests.stores import Place

NAMES = ("a", "b", "c")


def torn(root: Place) -> og.Graph:
    """Both branches changed persons, notes, edges and photos, each in its way, and the source also what is its own."""
    graph = founded(root)
    put(graph, "main", *everything("base"))
    graph.create_branch("draft")
    put(graph, "draft", *everything("theirs"), node("Person", "own", age=5))
    put(graph, "main", *everything("ours"))
    remove(graph, "draft", "Note", "c")
    return graph


def everything(value: str) -> list[str]:
    number = {"base": 1, "ours": 2, "theirs": 3}[value]
    return [
        *(node("Person", name, age=number, tags=[value], spot=[number, 0, 0], nick=value) for name in NAMES),
        *(node("Note", name, text=value, rank=number, due="2024-01-31", seen="2024-01-31T01:02:03.004Z") for name in NAMES),
        node("Photo", "a", image=f"base64:{'AAAA' * number}", spot=[number, 0]),
        *(edge("Knows", name, "bob", "dee", since=number, words=[value]) for name in NAMES),
    ]


CONFLICTS = [
    *(("Knows", name, "DivergentUpdate") for name in NAMES),
    ("Note", "a", "DivergentUpdate"),
    ("Note", "b", "DivergentUpdate"),
    ("Note", "c", "DeleteVsUpdate"),
    *(("Person", name, "DivergentUpdate") for name in NAMES),
    ("Photo", "a", "DivergentUpdate"),
]
Expected = dict[tuple[str, str, str], str]


def taken(graph: og.Graph, resolve: Any, **options: Any) -> dict[tuple[str, str], str]:
    """Merge; which side each of the rows in conflict is from."""
    ours, theirs = shown(graph), shown(graph, "draft")
    result = graph.merge("draft", resolve=resolve, **options)
    merged = shown(graph)
    assert result.resolved == len(CONFLICTS)
    assert merged["Person", "own"] == theirs["Person", "own"]
    assert_settled(graph)
    return {(kind, name): side(merged, ours, theirs, kind, name) for kind, name, _ in CONFLICTS}


def side(merged: Rows, ours: Rows, theirs: Rows, kind: str, name: str) -> str:
    row = merged.get((kind, name))
    assert row in (ours.get((kind, name)), theirs.get((kind, name)))
    return "ours" if row == ours.get((kind, name)) else "theirs"


def expected(decide: Callable[[str, str, str], str]) -> dict[tuple[str, str], str]:
    return {(kind, name): decide(kind, name, conflict) for kind, name, conflict in CONFLICTS}


def test_the_conflicts_of_a_dry_run_show_all_three_rows(place: Place) -> None:
    graph = torn(place / "g")
    before = fingerprint(place / "g")

    preview = graph.merge("draft", dry_run=True)

    assert fingerprint(place / "g") == before
    assert [(met.type_name, met.id, met.kind) for met in preview.conflicts] == CONFLICTS
    assert (preview.outcome, preview.commit) == ("conflicts", None)
    rows = {(met.type_name, met.id): met for met in preview.conflicts}
    person = rows["Person", "a"]
    assert person.base is not None
    assert person.ours is not None
    assert person.theirs is not None
    assert [row["nick"] for row in (person.base, person.ours, person.theirs)] == ["base", "ours", "theirs"]
    assert person.properties == ("age", "nick", "tags", "spot")
    gone = rows["Note", "c"]
    assert (gone.base is None, gone.ours is None, gone.theirs) == (False, False, None)
    assert {met.entity_kind for met in preview.conflicts} == {"node", "edge"}
    assert [met.to_dict()["id"] for met in preview.conflicts] == [name for _, name, _ in CONFLICTS]
    with pytest.raises(errors.MergeConflicts) as refused:
        graph.merge("draft")
    assert [(met.type_name, met.id, met.kind) for met in refused.value.conflicts] == CONFLICTS
    assert refused.value.hint


@pytest.mark.parametrize("which", ["ours", "theirs"])
def test_one_side_for_everything(place: Place, which: str) -> None:
    assert taken(torn(place / "g"), which) == expected(lambda *_: which)


MAPPING = {
    "*": "theirs",
    "DeleteVsUpdate": "ours",
    "Person": "ours",
    ("Person", "b"): "theirs",
    ("Knows", "c"): "ours",
}
TABLE = [
    {"take": "theirs"},
    {"kind": "DeleteVsUpdate", "take": "ours"},
    {"type": "Person", "take": "ours"},
    {"type": "Person", "id": "b", "take": "theirs"},
    {"type": "Knows", "id": "c", "take": "ours"},
]


def mapped(kind: str, name: str, conflict: str) -> str:
    if (kind, name) in (("Person", "b"), ("Knows", "c")):
        return "theirs" if kind == "Person" else "ours"
    return "ours" if kind == "Person" or conflict == "DeleteVsUpdate" else "theirs"


COLUMNS = pa.schema([(name, pa.string()) for name in ("type", "kind", "id", "take")])
FORMS: dict[str, Callable[[], Any]] = {
    "a mapping": lambda: MAPPING,
    "a mapping in another order": lambda: dict(reversed(MAPPING.items())),
    "a list": lambda: TABLE,
    "a tuple": lambda: tuple(TABLE),
    "a table": lambda: pa.Table.from_pylist(TABLE, schema=COLUMNS),
    "a data frame": lambda: pytest.importorskip("pandas").DataFrame(TABLE),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_decisions(place: Place, form: str) -> None:
    resolve = FORMS[form]()

    assert taken(torn(place / "g"), resolve) == expected(mapped)


def test_the_most_precise_decision_holds_and_of_two_the_later(place: Place) -> None:
    decisions = [
        {"type": "Person", "kind": "DivergentUpdate", "id": "a", "take": "ours"},
        {"type": "Person", "id": "a", "take": "theirs"},
        {"type": "Person", "kind": "DivergentUpdate", "take": "theirs"},
        {"type": "Person", "take": "ours"},
        {"kind": "DivergentUpdate", "take": "ours"},
        {"take": "theirs"},
        {"type": "Note", "id": "b", "take": "ours"},
        {"type": "Note", "id": "b", "take": "theirs"},
        {"id": "c", "take": "ours"},
    ]

    def decide(kind: str, name: str, conflict: str) -> str:
        if (kind, name) in (("Person", "a"),) or name == "c":
            return "ours"
        if kind == "Person" or (kind, name) == ("Note", "b"):
            return "theirs"
        return "ours" if conflict == "DivergentUpdate" else "theirs"

    assert taken(torn(place / "g"), decisions) == expected(decide)


def test_what_is_left_undecided_stops_the_merge(place: Place) -> None:
    graph = torn(place / "g")
    before = fingerprint(place / "g")

    with pytest.raises(errors.MergeConflicts) as refused:
        graph.merge("draft", resolve={"Person": "theirs", "Note": "ours", "Photo": "ours", ("Knows", "a"): "ours"})

    assert [(met.type_name, met.id) for met in refused.value.conflicts] == [("Knows", "b"), ("Knows", "c")]
    assert fingerprint(place / "g") == before


def test_values_of_every_type_are_given_on_top_of_a_side(place: Place) -> None:
    graph = torn(place / "g")
    values: list[dict[str, Any]] = [
        {"take": "ours"},
        {"type": "Person", "id": "a", "take": "theirs", "values": {"age": 77, "tags": ["né", ""], "spot": [7, 7, 7]}},
        {"type": "Person", "id": "b", "values": {"nick": None, "email": "b@x", "mood": "sad"}},
        {"type": "Note", "id": "a", "values": {"rank": -0.0, "due": "2025-12-31", "seen": "2025-12-31T00:00:00Z"}},
        {"type": "Note", "id": "c", "take": "ours", "values": {"text": "kept"}},
        {"type": "Photo", "id": "a", "take": "theirs", "values": {"image": "base64:/w=="}},
        {"type": "Knows", "id": "a", "take": "theirs", "values": '{"since": 12}'},
    ]
    ours, theirs = shown(graph), shown(graph, "draft")

    result = graph.merge("draft", resolve=values)

    merged = shown(graph)
    assert result.resolved == len(CONFLICTS)
    assert merged["Person", "a"] == theirs["Person", "a"] | {"age": 77, "tags": ["né", ""], "spot": [7.0, 7.0, 7.0]}
    bob = ours["Person", "b"] | {"email": "b@x", "mood": "sad"}
    assert merged["Person", "b"] == {name: value for name, value in bob.items() if name != "nick"}
    assert merged["Person", "c"] == ours["Person", "c"]
    assert merged["Note", "a"] == ours["Note", "a"] | {"rank": -0.0, "due": "2025-12-31", "seen": "2025-12-31T00:00:00.000Z"}
    assert str(merged["Note", "a"]["rank"]) == "-0.0"
    assert merged["Note", "b"] == ours["Note", "b"]
    assert merged["Note", "c"] == ours["Note", "c"] | {"text": "kept"}
    assert merged["Photo", "a"] == theirs["Photo", "a"] | {"image": "base64:/w=="}
    assert merged["Knows", "a"] == theirs["Knows", "a"] | {"since": 12}
    assert graph.merge("draft").outcome == "already_up_to_date"
    assert graph.merge("main", "draft").outcome == "fast_forward"
    assert shown(graph, "draft") == merged


def test_given_values_beside_rows_of_the_source_and_of_merged_columns(place: Place) -> None:
    """Rows of one type come from everywhere at once, blobs among them."""
    graph = founded(place / "g")
    put(graph, "main", *(node("Photo", name, image="base64:AAAA", spot=[0, 0]) for name in ("x", "y", "z")))
    graph.create_branch("draft")
    for branch, images, spots in (("draft", "BAD", ([0, 0], [1, 1], [0, 0])), ("main", "AEF", ([2, 2], [0, 0], [0, 0]))):
        for name, image, spot in zip("xyz", images, spots, strict=True):
            put(graph, branch, node("Photo", name, image=f"base64:AAA{image}", spot=spot))
    put(graph, "draft", node("Photo", "new", image="base64:AAAC"))

    graph.merge("draft", granularity="column", resolve={("Photo", "z"): {"image": "base64:AAAG"}})

    merged = {name: row for (kind, name), row in shown(graph).items() if kind == "Photo"}
    assert {name: (row["image"], row.get("spot")) for name, row in merged.items()} == {
        "p1": ("base64:AAEC", [1.0, 0.0]),
        "x": ("base64:AAAB", [2.0, 2.0]),
        "y": ("base64:AAAE", [1.0, 1.0]),
        "z": ("base64:AAAG", [0.0, 0.0]),
        "new": ("base64:AAAC", None),
    }


# Conflicts of the merged graph ---------------------------------------------------------------------------------------


def unique_clash(graph: og.Graph) -> None:
    put(graph, "draft", node("Person", "x", email="e@x"))
    put(graph, "main", node("Person", "y", email="e@x"))


@pytest.mark.parametrize(
    ("resolve", "people"),
    [
        ("ours", {"y": "e@x"}),
        ("theirs", {"x": "e@x"}),
        ({"UniqueViolation": "ours"}, {"y": "e@x"}),
        ({("Person", "y"): "theirs"}, {"x": "e@x"}),
        ({("Person", "x"): "ours"}, {"y": "e@x"}),
        ([{"type": "Person", "id": "y", "values": {"email": "y@x"}}], {"y": "y@x"}),
    ],
)
def test_decisions_about_a_unique_value(place: Place, resolve: Any, people: dict[str, str]) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    unique_clash(graph)

    graph.merge("draft", resolve=resolve)

    merged = {name: row.get("email") for (kind, name), row in shown(graph).items() if kind == "Person" and name in "xy"}
    assert merged == people


@pytest.mark.parametrize("about", [("Knows", "new"), ("Person", "eve")])
@pytest.mark.parametrize(("which", "is_there"), [("ours", False), ("theirs", True)])
def test_decisions_about_an_edge_without_its_node(place: Place, about: tuple[str, str], which: str, is_there: bool) -> None:
    """The target deleted the node. The decision may name the edge or the node."""
    graph = founded(place / "g")
    graph.create_branch("draft")
    put(graph, "draft", edge("Knows", "new", "bob", "eve"))
    remove(graph, "main", "Person", "eve")

    graph.merge("draft", resolve={about: which})

    assert [key in shown(graph) for key in (("Knows", "new"), ("Person", "eve"))] == [is_there, is_there]
    assert_settled(graph)


@pytest.mark.parametrize(("which", "left"), [("ours", ["y", "z"]), ("theirs", ["x"])])
def test_decisions_about_too_many_edges(place: Place, which: str, left: list[str]) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    put(graph, "draft", edge("Member", "x", "bob", "red"))
    put(graph, "main", edge("Member", "y", "bob", "red"), edge("Member", "z", "bob", "red"))

    graph.merge("draft", resolve={"CardinalityViolation": which})

    assert [name for kind, name in shown(graph) if kind == "Member"] == left


def test_a_decision_may_lead_to_further_conflicts_that_are_decided_as_well(place: Place) -> None:
    """Without the person of the source, its edges have no node; a decision about the person takes them away, too."""
    graph = founded(place / "g")
    graph.create_branch("draft")
    unique_clash(graph)
    put(graph, "draft", edge("Knows", "k", "x", "bob"), edge("Likes", "l", "bob", "x"))
    before = fingerprint(place / "g")

    with pytest.raises(errors.MergeConflicts) as refused:
        graph.merge("draft", resolve={"UniqueViolation": "ours"})
    assert [(met.kind, met.id) for met in refused.value.conflicts] == [("OrphanEdge", "k"), ("OrphanEdge", "l")]
    assert fingerprint(place / "g") == before
    result = graph.merge("draft", resolve={("Person", "x"): "ours"})

    assert result.resolved == 3
    assert {("Knows", "k"), ("Likes", "l"), ("Person", "x")} & shown(graph).keys() == set()


# What is refused -----------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, str]] = {
    "a row that is in no conflict": ({"*": "ours", ("Person", "dee"): "ours"}, "no conflict"),
    "a row that is not there": ({"*": "ours", ("Person", "nobody"): "ours"}, "no conflict"),
    "a kind of conflict that this row is not in": (
        [{"take": "ours"}, {"type": "Person", "id": "a", "kind": "DeleteVsUpdate", "take": "ours"}],
        "no conflict of the kind DeleteVsUpdate",
    ),
    "an unknown type": ({"Persn": "ours"}, "no type and no kind of conflict `Persn`"),
    "an unknown type in a row": ([{"type": "Persn", "take": "ours"}], "`Persn`"),
    "an unknown kind": ([{"kind": "Divergent", "take": "ours"}], "`kind` of decision 1"),
    "a relation that is not there": ({"*": "ours", "main.nothing": "theirs"}, "main.nothing"),
    "an unknown side": ("mine", "`ours` or `theirs`"),
    "an unknown side in a mapping": ({"Person": "mine"}, "`ours` or `theirs`"),
    "no side": ({"Person": None}, "`ours` or `theirs`"),
    "a number": (7, "takes no int"),
    "a mapping with a number": ({7: "ours"}, "about 7"),
    "an unknown member": ([{"tpe": "Person", "take": "ours"}], "unknown member"),
    "a decision that decides nothing": ([{"type": "Person"}], "neither `take` nor `values`"),
    "a list of texts": (["ours"], "decision 1"),
    "an id that is a number": ([{"type": "Person", "id": 7, "take": "ours"}], "`id` of decision 1"),
    "values without an id": ([{"type": "Person", "values": {"age": 1}}], "names no id"),
    "values that are none": ([{"type": "Person", "id": "a", "values": {}}], "where properties are expected"),
    "values that are no JSON": ([{"type": "Person", "id": "a", "values": "{"}], "no JSON object"),
    "an unknown property": ([{"take": "ours"}, {"type": "Person", "id": "a", "values": {"agee": 1}}], "no such property"),
    "the key": ([{"take": "ours"}, {"type": "Person", "id": "a", "values": {"name": "b"}}], "is the key"),
    "an end of an edge": ([{"take": "ours"}, {"type": "Knows", "id": "a", "values": {"src": "dee"}}], "no such property"),
    "a text for a number": ([{"take": "ours"}, {"type": "Person", "id": "a", "values": {"age": "x"}}], "Person.age"),
    "a large number": (
        [{"take": "ours"}, {"type": "Person", "id": "a", "values": {"age": 2**40}}],
        "Person.age",
    ),
    "a short vector": (
        [{"take": "ours"}, {"type": "Person", "id": "a", "values": {"spot": [1]}}],
        "Person.spot",
    ),
    "half a character": ([{"take": "ours"}, {"type": "Person", "id": "a", "values": {"nick": "\ud800"}}], "Person.nick"),
    "half a character in a list": (
        [{"take": "ours"}, {"type": "Person", "id": "a", "values": {"tags": ["x", "\ud800"]}}],
        "Person.tags",
    ),
    "a table whose structures have nulls": (
        pa.Table.from_pylist([{"id": "a", "values": {"age": 1}}, {"id": "b", "values": {"nick": "x"}}]),
        "decision 1 has nulls (nick)",
    ),
    "a null in a list": ([{"take": "ours"}, {"type": "Person", "id": "a", "values": {"tags": [None]}}], "Person.tags"),
    "values for a row that its side does not have": (
        [{"take": "ours"}, {"type": "Note", "id": "c", "take": "theirs", "values": {"text": "x"}}],
        "cannot get values",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("dry", [False, True])
def test_decisions_that_are_refused_change_nothing(place: Place, case: str, dry: bool) -> None:
    resolve, words = REFUSED[case]
    graph = torn(place / "g")
    before = fingerprint(place / "g")

    with pytest.raises(errors.BadRequest) as refusal:
        graph.merge("draft", resolve=resolve, dry_run=dry)

    assert words in refusal.value.message
    assert refusal.value.hint
    assert fingerprint(place / "g") == before


def test_a_required_value_cannot_be_taken_away(place: Place) -> None:
    graph = torn(place / "g")
    before = fingerprint(place / "g")

    with pytest.raises(errors.MergeConflicts) as refused:
        graph.merge("draft", resolve=[{"take": "ours"}, {"type": "Note", "id": "a", "values": {"mark": None}}])

    assert [(met.kind, met.type_name, met.id) for met in refused.value.conflicts] == [
        ("ValueConstraintViolation", "Note", "a")
    ]
    assert fingerprint(place / "g") == before


def test_a_given_value_must_be_unique_among_rows_that_nobody_changed(place: Place) -> None:
    graph = torn(place / "g")
    before = fingerprint(place / "g")

    with pytest.raises(errors.MergeConflicts) as refused:
        graph.merge("draft", resolve=[{"take": "ours"}, {"type": "Person", "id": "a", "values": {"email": "eve@x"}}])

    assert [(met.kind, met.type_name, met.id) for met in refused.value.conflicts] == [("UniqueViolation", "Person", "eve")]
    assert fingerprint(place / "g") == before


@pytest.mark.parametrize("replay", ["revert", "cherry_pick"])
@pytest.mark.parametrize("which", [None, "ours", "theirs"])
def test_decisions_about_reverts_and_picks(place: Place, replay: str, which: str | None) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    put(graph, "draft" if replay == "cherry_pick" else "main", node("Person", "dee", age=50), node("Person", "new"))
    commit = graph.commits("draft" if replay == "cherry_pick" else "main")[0].graph_commit_id
    put(graph, "main", node("Person", "dee", age=60))
    run = getattr(graph, replay)
    before = fingerprint(place / "g")

    if which is None:
        with pytest.raises(errors.MergeConflicts) as refused:
            run(commit)
        assert [(met.kind, met.id) for met in refused.value.conflicts] == [("DivergentUpdate", "dee")]
        assert fingerprint(place / "g") == before
        return
    result = run(commit, resolve={("Person", "dee"): which})

    assert result.commit.origin_commit_id == commit
    assert result.commit.merged_parent_commit_id is None
    theirs = 20 if replay == "revert" else 50
    assert shown(graph)["Person", "dee"]["age"] == (60 if which == "ours" else theirs)
    assert (("Person", "new") in shown(graph)) == (replay == "cherry_pick")


def test_dry_runs_of_reverts_picks_and_restores(place: Place) -> None:
    graph = founded(place / "g")
    first = graph.commits()[0].graph_commit_id
    put(graph, "main", node("Person", "dee", age=50))
    commit = graph.commits()[0].graph_commit_id
    put(graph, "main", node("Person", "dee", age=60))
    before = fingerprint(place / "g")

    (met,) = graph.revert(commit, dry_run=True).conflicts
    assert met.ours is not None
    assert met.theirs is not None
    assert (met.kind, met.id, met.ours["age"], met.theirs["age"]) == ("DivergentUpdate", "dee", 60, 20)
    assert graph.revert(commit, dry_run=True, resolve="theirs").resolved == 1
    assert graph.cherry_pick(commit, dry_run=True).outcome == "conflicts"
    assert graph.cherry_pick(graph.commits()[0].graph_commit_id, dry_run=True).outcome == "already_up_to_date"
    restored = graph.restore(first, dry_run=True)
    assert (restored.outcome, restored.commit, restored.changes["node:Person"].updates) == ("merged", None, 1)
    assert graph.restore("main", dry_run=True).outcome == "already_up_to_date"
    assert fingerprint(place / "g") == before


@pytest.mark.parametrize("operation", ["merge", "revert", "cherry_pick", "restore"])
def test_dry_runs_make_the_checks(place: Place, operation: str) -> None:
    graph = founded(place / "g")
    first = graph.commits()[0].graph_commit_id
    graph.create_branch("draft")
    put(graph, "draft", node("Person", "new"))
    put(graph, "main", node("Person", "other"))
    state = {
        "merge": "draft",
        "revert": graph.commits()[0].graph_commit_id,
        "cherry_pick": graph.commits("draft")[0].graph_commit_id,
        "restore": first,
    }[operation]
    run = getattr(graph, operation)
    before = fingerprint(place / "g")

    failing = {"other": "select id from Person where id = 'other'", "new": "select id from Person where id = 'new'"}
    wanted = {"nobody": "select 1 as missing where (select count(*) from Person where id in ('other', 'new')) = 0"}
    for checks in (failing, wanted):
        fails = (checks is wanted) == (operation in ("revert", "restore"))
        if fails:
            with pytest.raises(errors.DataTestFailed, match="nothing was published"):
                run(state, dry_run=True, checks=checks)
        else:
            assert run(state, dry_run=True, checks=checks).outcome == "merged"
    assert fingerprint(place / "g") == before


def test_a_single_decision_needs_no_list(place: Place) -> None:
    graph = founded(place / "g")
    graph.create_branch("draft")
    put(graph, "draft", node("Person", "a", age=1))
    put(graph, "main", node("Person", "a", age=2))

    assert graph.merge("draft", resolve={"type": "Person", "id": "a", "take": "theirs"}).resolved == 1
    assert shown(graph)["Person", "a"]["age"] == 1


def test_a_data_frame_gives_each_row_its_own_values(place: Place) -> None:
    """A table of Arrow would give all rows one structure, and the other values of each row would be lost."""
    pandas = pytest.importorskip("pandas")
    graph = torn(place / "g")
    frame = pandas.DataFrame(
        [
            {"take": "theirs"},
            {"type": "Person", "id": "a", "values": {"age": 70}},
            {"type": "Person", "id": "b", "values": {"nick": None}},
            {"type": "Person", "id": "c", "values": '{"nick": "text"}'},
        ]
    )
    graph.merge("draft", resolve=frame)

    people = {name: shown(graph)["Person", name] for name in NAMES}
    assert [(people[name]["age"], people[name].get("nick")) for name in NAMES] == [(70, "ours"), (2, None), (2, "text")]


class LengthEmbedder:
    """Computes unit vectors that tell texts of different lengths apart."""

    provider, model = "own", "lengths"

    def __init__(self) -> None:
        self.texts: list[list[str]] = []

    def embed(self, texts: Sequence[str], *, dimension: int, role: str = "document") -> np.ndarray[Any, Any]:  # noqa: ARG002
        self.texts.append(list(texts))
        return np.eye(dimension, dtype=np.float32)[[len(text) % dimension for text in texts]]


PAGES = """
node Page { slug: String @key  title: String  summary: String?  views: I32?
  title_vector: Vector(3) @embed(title)  summary_vector: Vector(3)? @embed(summary) }
"""


def torn_pages(place: Place, embedder: LengthEmbedder) -> og.Graph:
    graph = og.init(place / "g", PAGES, embedder=embedder)
    put(graph, "main", *(node_of("Page", name, "base", "base") for name in NAMES))
    graph.create_branch("draft")
    put(graph, "draft", *(node_of("Page", name, "theirs", "theirs") for name in NAMES))
    put(graph, "main", *(node_of("Page", name, "ours", "ours") for name in NAMES))
    embedder.texts.clear()
    return graph


def node_of(kind: str, slug: str, title: str, summary: str) -> str:
    return json.dumps({"type": kind, "data": {"slug": slug, "title": title, "summary": summary}})


def test_vectors_of_given_texts_are_computed(place: Place) -> None:
    embedder = LengthEmbedder()
    graph = torn_pages(place, embedder)
    decisions = [
        {"take": "theirs"},
        {"type": "Page", "id": "a", "values": {"title": "a longer title", "summary": None}},
        {"type": "Page", "id": "b", "values": {"summary": "a long summary", "summary_vector": [7.0, 7.0, 7.0]}},
        {"type": "Page", "id": "c", "take": "theirs", "values": {"views": 3}},
    ]

    assert graph.merge("draft", resolve=decisions, dry_run=True).resolved == len(NAMES)
    assert embedder.texts == [], "a dry run asked the provider"
    graph.merge("draft", resolve=decisions)

    assert embedder.texts == [["a longer title"]]
    pages = {name: shown(graph)["Page", name] for name in NAMES}
    assert [pages[name]["title_vector"].index(1.0) for name in NAMES] == [len("a longer title") % 3, 1, 0]
    assert [pages[name].get("summary_vector") for name in NAMES] == [None, [7.0, 7.0, 7.0], [1.0, 0.0, 0.0]]


def test_vectors_of_given_texts_stay_where_embedding_is_off(place: Place) -> None:
    torn_pages(place, LengthEmbedder())
    graph = og.connect(place / "g", embed="off")
    graph.merge("draft", resolve=[{"take": "ours"}, {"type": "Page", "id": "a", "values": {"title": "a longer title"}}])

    page = shown(graph)["Page", "a"]
    assert (page["title"], page["title_vector"]) == ("a longer title", [0.0, 1.0, 0.0])
