"""What one commit changed, with images and pages."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import BadRequest, ChangeFeedGap, CommitHasNoParent, CursorRejected, NotFound, SchemaBoundary
from omnigraph_sql.history.change_pages import ChangePages, CommitStates
from omnigraph_sql.history.change_tokens import CommitPageToken, to_text
from omnigraph_sql.history.commit_changes import CommitChanges
from omnigraph_sql.history.diff import ChangeFilter, EntityChange
from tests.internals import store_of

SCHEMA = """
node Person { name: String @key  age: I32?  score: F64?  tags: [String]?  vec: Vector(2)?  photo: Blob?  born: Date? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""


def node(name: str, **values: Any) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, **values}})


def image(name: str, **values: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"id": name, "name": name, **values}}


KNOWS = json.dumps({"edge": "Knows", "from": "Ann", "to": "Bob", "data": {"id": "k", "since": 3}})


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", SCHEMA, actor="ada")
    graph.load([node("Ann", age=1), node("Bob", age=2), KNOWS], mode="append", message="people")
    return graph


def last(graph: og.Graph, branch: str = "main") -> str:
    return graph.commits(branch)[0].graph_commit_id


def told(changes: CommitChanges) -> list[tuple[str, str, str]]:
    return [(each.op, each.type_name, each.id) for each in changes.changes]


def paged(graph: og.Graph, commit: str, limit: int, **filters: Any) -> Iterator[CommitChanges]:
    page = graph.commit_changes(commit, limit=limit, **filters)
    yield page
    while page.next_page_token is not None:
        page = graph.commit_changes(commit, limit=limit, page_token=page.next_page_token, **filters)
        yield page


def test_the_header_says_who_made_the_commit_and_on_what(graph: og.Graph) -> None:
    commit = graph.commits()[0]
    changes = graph.commit_changes(commit.graph_commit_id)

    assert changes.commit_id == commit.graph_commit_id
    assert changes.parents == (commit.parent_commit_id,)
    assert (changes.branch, changes.actor, changes.authored_at) == ("main", "ada", commit.created_at)
    assert (changes.message, changes.is_complete, changes.next_page_token) == ("people", True, None)


def test_an_insert_has_the_entity_after_it(graph: og.Graph) -> None:
    changes = graph.commit_changes(last(graph))

    assert told(changes) == [("insert", "Person", "Ann"), ("insert", "Person", "Bob"), ("insert", "Knows", "k")]
    assert [each.before for each in changes.changes] == [None, None, None]
    assert changes.changes[0].after == image("Ann", age=1)
    assert changes.changes[2].after == {"edge": "Knows", "from": "Ann", "to": "Bob", "data": {"id": "k", "since": 3}}
    assert changes.changes[2].endpoints is not None
    assert vars(changes.changes[2].endpoints) == {"src": "Ann", "dst": "Bob"}


def test_an_update_has_both_images_and_names_what_changed(graph: og.Graph) -> None:
    photo = "base64:" + base64.b64encode(b"\x00\xff").decode()
    full = {"age": None, "score": -0.0, "tags": ["a", "ü"], "vec": [1.0, 2.0], "photo": photo, "born": "2001-02-03"}
    graph.load([node("Ann", **full)], mode="merge")
    (change,) = graph.commit_changes(last(graph)).changes

    assert change.before == image("Ann", age=1)
    assert change.after == image("Ann", **{name: value for name, value in full.items() if value is not None})
    assert change.changed_properties == ("age", "born", "photo", "score", "tags", "vec")

    graph.load([node("Ann", **full | {"score": 0.0})], mode="merge")
    (change,) = graph.commit_changes(last(graph)).changes
    assert change.changed_properties == ("score",), "zeros of different signs are different values"


def test_a_delete_has_the_entity_before_it_and_its_edges(graph: og.Graph) -> None:
    graph.mutate('query q() { delete Person where name = "Bob" }')
    changes = graph.commit_changes(last(graph))

    assert told(changes) == [("delete", "Person", "Bob"), ("delete", "Knows", "k")]
    assert changes.changes[0].before == image("Bob", age=2)
    assert [each.after for each in changes.changes] == [None, None]
    assert changes.changes[1].endpoints is not None


def test_images_can_be_loaded(graph: og.Graph, tmp_path: Path) -> None:
    graph.load([node("Cy", tags=["x"], vec=[0.5, 0.25], photo="base64:aGk=")], mode="append")
    (change,) = graph.commit_changes(last(graph)).changes

    copy = og.init(tmp_path / "copy", SCHEMA)
    copy.load([json.dumps(change.after)], mode="append")
    assert copy.entity_at("node:Person", "Cy") == graph.entity_at("node:Person", "Cy") == change.after


def test_commits_that_only_rewrite_tables_change_nothing(graph: og.Graph) -> None:
    graph.load([node("Ann", age=1)], mode="merge")
    assert graph.commit_changes(last(graph)).changes == ()

    before = last(graph)
    graph.ensure_indices()
    assert last(graph) != before
    assert graph.commit_changes(last(graph)).changes == ()


def test_a_commit_that_folds_fragments_shows_its_own_rows_only(graph: og.Graph) -> None:
    for number in range(70):
        graph.load([node(f"P{number:02}")], mode="append")
    commits = graph.commits()[:70]

    assert [told(graph.commit_changes(each.graph_commit_id)) for each in reversed(commits)] == [
        [("insert", "Person", f"P{number:02}")] for number in range(70)
    ]
    for each in commits:
        pages = list(paged(graph, each.graph_commit_id, 1))
        assert [told(page) for page in pages if page.changes] == [told(graph.commit_changes(each.graph_commit_id))]


def test_a_merge_commit_is_compared_with_its_first_parent(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.load([node("Cy")], mode="append", branch="draft")
    graph.load([node("Dee")], mode="append", branch="draft")
    graph.load([node("Eve")], mode="append")
    graph.merge("draft")
    changes = graph.commit_changes(last(graph))

    assert len(changes.parents) == 2
    assert told(changes) == [("insert", "Person", "Cy"), ("insert", "Person", "Dee")]
    assert changes.branch == "main"


def test_the_first_write_of_a_branch_shows_its_own_changes(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.mutate('query q() { update Person set { age: 5 } where name = "Bob" }', branch="draft")
    changes = graph.commit_changes(last(graph, "draft"))

    assert (told(changes), changes.branch) == ([("update", "Person", "Bob")], "draft")


def test_filters_select_and_their_errors(graph: og.Graph) -> None:
    commit = last(graph)

    assert told(graph.commit_changes(commit, kinds=["edge"])) == [("insert", "Knows", "k")]
    assert told(graph.commit_changes(commit, types=["Person"])) == [("insert", "Person", "Ann"), ("insert", "Person", "Bob")]
    assert graph.commit_changes(commit, ops=["update", "delete"]).changes == ()
    wrong: list[dict[str, Any]] = [{"kinds": ["nodes"]}, {"types": ["Persn"]}, {"ops": ["remove"]}]
    for filters in wrong:
        with pytest.raises(BadRequest, match="there is no"):
            graph.commit_changes(commit, **filters)
    for limit in (0, 8193, -1):
        with pytest.raises(BadRequest, match="limit"):
            graph.commit_changes(commit, limit=limit)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("filters", [{}, {"ops": ["update"]}, {"kinds": ["node"], "ops": ["delete", "insert"]}], ids=str)
def test_pages_make_up_the_whole(graph: og.Graph, limit: int, filters: dict[str, Any]) -> None:
    graph.create_branch("draft")
    graph.mutate('query q() { update Person set { age: 5 } where name = "Bob" }', branch="draft")
    graph.mutate('query q() { delete Person where name = "Ann" }', branch="draft")
    graph.load([node(f"P{number}") for number in range(4)], mode="append", branch="draft")
    graph.load(['{"type": "City", "data": {"name": "Ulm"}}'], mode="append", branch="draft")
    graph.merge("draft")
    commit = last(graph)

    whole = graph.commit_changes(commit, **filters)
    pages = list(paged(graph, commit, limit, **filters))
    assert [change for page in pages for change in page.changes] == list(whole.changes)
    assert all(len(page.changes) == limit for page in pages[:-1])
    assert [page.is_complete for page in pages] == [False] * (len(pages) - 1) + [True]


def test_tokens_belong_to_graph_commit_and_filter(graph: og.Graph, tmp_path: Path) -> None:
    commit = last(graph)
    token = graph.commit_changes(commit, limit=1).next_page_token
    assert token is not None
    other = og.init(tmp_path / "other", SCHEMA)
    other.load([node("Ann"), node("Bob")], mode="append")
    graph.load([node("Cy"), node("Dee")], mode="append")

    def reason(graph: og.Graph, commit: str, token: str, **filters: Any) -> str:
        with pytest.raises(CursorRejected) as caught:
            graph.commit_changes(commit, page_token=token, **filters)
        assert caught.value.hint
        return caught.value.reason

    assert reason(other, last(other), token) == "graph"
    assert reason(graph, last(graph), token) == "commit"
    assert reason(graph, commit, token, ops=["insert"]) == "filter"
    assert reason(graph, commit, token, types=[]) == "filter"
    assert reason(graph, commit, graph.changes().cursor) == "kind"
    feed = graph.changes(start="beginning", limit=1).next_page_token
    assert feed is not None
    assert reason(graph, commit, feed) == "kind"
    for broken in ("", "x", token[:-3], token[1:], token + "A", token[:30] + "A" + token[31:], "é", token * 40):
        assert reason(graph, commit, broken) == "malformed"


def test_a_token_for_a_place_that_is_not_there_is_refused(graph: og.Graph) -> None:
    commit, head = last(graph), graph.snapshot().head
    assert head is not None
    token = CommitPageToken(
        graph=str(head.graph_id), commit=commit, filter=ChangeFilter().digest, table_key="node:City", row=0
    )
    with pytest.raises(CursorRejected, match="place"):
        graph.commit_changes(commit, page_token=to_text(token))


def test_the_first_commit_has_no_parent(graph: og.Graph) -> None:
    first = graph.commits()[-1].graph_commit_id
    with pytest.raises(CommitHasNoParent) as caught:
        graph.commit_changes(first)
    assert (caught.value.commit_id, caught.value.http_status) == (first, 409)


def test_an_unknown_commit_and_one_of_a_deleted_branch_are_not_found(graph: og.Graph) -> None:
    with pytest.raises(NotFound, match="no commit"):
        graph.commit_changes("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    graph.create_branch("draft")
    graph.load([node("Cy")], mode="append", branch="draft")
    gone = last(graph, "draft")
    graph.delete_branch("draft")
    with pytest.raises(NotFound):
        graph.commit_changes(gone)


def test_a_commit_whose_rows_were_removed_is_a_gap(graph: og.Graph) -> None:
    early = last(graph)
    for number in range(4):
        graph.load([node(f"P{number}")], mode="append")
    late = last(graph)
    with pytest.warns(UserWarning, match="keep"):
        graph.cleanup(keep=2)

    for reader in (graph, og.connect(graph.uri, read_only=True)):
        with pytest.raises(ChangeFeedGap) as caught:
            reader.commit_changes(early, types=["Person"])
        assert caught.value.first_unreadable_commit_id == early
        assert told(reader.commit_changes(late)) == [("insert", "Person", "P3")]


def test_a_type_with_other_columns_is_a_boundary(graph: og.Graph) -> None:

    graph.load([node("Cy"), '{"type": "City", "data": {"name": "Ulm"}}'], mode="append")
    entry = graph.snapshot().entry("node:Person")
    commit = last(graph)
    # The same path gets a version with one more column, and the commit is made to show it.
    dataset = lance.dataset(f"{graph.uri}/{entry.path}")
    dataset.add_columns(pa.field("shoe", pa.int32()))
    store = store_of(graph)
    now = store.coordinator.at_commit(commit)
    moved = _with_version(now, dataset.version)
    pages = ChangePages(store_of(graph).storage)

    parent = graph.commit(commit).parent_commit_id
    assert parent is not None
    states = CommitStates(commit, store.coordinator.at_commit(parent), moved)
    with pytest.raises(SchemaBoundary) as caught:
        pages.read(graph.catalog, states, ChangeFilter(), None, None)
    assert (caught.value.commit_id, caught.value.type_name) == (commit, "Person")
    page = pages.read(graph.catalog, states, ChangeFilter(types=["City"]), None, None)
    assert [change.id for change in page.changes] == ["Ulm"]


def _with_version(snapshot: og.Snapshot, version: int) -> og.Snapshot:
    entry = snapshot.entry("node:Person")
    return replace(snapshot, entries={**snapshot.entries, "node:Person": replace(entry, version=version)})


def test_a_diff_has_the_images_of_both_states(graph: og.Graph) -> None:
    graph.load([node("Ann", age=7), node("Cy")], mode="merge")
    graph.mutate('query q() { delete Person where name = "Bob" }')

    def entry(change: EntityChange) -> tuple[str, Any, Any]:
        return change.id, change.before, change.after

    listed = graph.diff("main@2", "main", images=True)
    assert [entry(each) for each in listed.changes] == [
        ("Ann", image("Ann", age=1), image("Ann", age=7)),
        ("Bob", image("Bob", age=2), None),
        ("Cy", None, image("Cy")),
        ("k", json.loads(KNOWS), None),
    ]
    assert listed.changes[0].changed_properties == ("age",)
    assert [each.before for each in graph.diff("main@2", "main").changes] == [None] * 4
    only = graph.diff("main@2", "main", images=True, ops=["update"])
    assert [entry(each) for each in only.changes] == [("Ann", image("Ann", age=1), image("Ann", age=7))]


def test_the_dictionary_of_changes_is_json(graph: og.Graph) -> None:
    document = graph.commit_changes(last(graph), types=["Knows"]).to_dict()

    assert json.loads(json.dumps(document)) == document
    assert document["changes"] == [
        {
            "kind": "edge",
            "type_name": "Knows",
            "id": "k",
            "op": "insert",
            "version": 2,
            "endpoints": {"src": "Ann", "dst": "Bob"},
            "after": json.loads(KNOWS),
        }
    ]
