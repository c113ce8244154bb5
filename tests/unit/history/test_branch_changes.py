"""The change feed of a branch: order, cursors, pages, and baselines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import BadRequest, ChangeFeedGap, CursorRejected, NotFound
from omnigraph_sql.history.branch_changes import ChangeFeedPage
from omnigraph_sql.history.change_tokens import FeedCursor, from_text, to_text

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""


def node(name: str, **values: Any) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, **values}})


def insert(graph: og.Graph, *names: str, branch: str = "main") -> str:
    """Insert people; the id of the commit."""
    commit = graph.load([node(name) for name in names], mode="append", branch=branch).commit
    assert commit is not None
    return commit.graph_commit_id


def told(page: ChangeFeedPage) -> list[list[str]]:
    return [[change.id for change in block.changes] for block in page.blocks]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", SCHEMA)
    insert(graph, "Ann")
    return graph


def rejection(graph: og.Graph, **request: Any) -> str:
    with pytest.raises(CursorRejected) as caught:
        graph.changes(**request)
    assert caught.value.hint
    return caught.value.reason


def test_a_feed_starts_now_at_the_beginning_or_after_a_commit(graph: og.Graph) -> None:
    bob = insert(graph, "Bob")
    cy = insert(graph, "Cy", "Dee")

    assert told(graph.changes()) == []
    assert told(graph.changes(start="now")) == []
    page = graph.changes(start="beginning")
    assert told(page) == [["Ann"], ["Bob"], ["Cy", "Dee"]]
    assert [block.commit_id for block in page.blocks][1:] == [bob, cy]
    assert page.head_commit_id == cy
    assert told(graph.changes(start=f"after:{bob}")) == [["Cy", "Dee"]]
    assert told(graph.changes(start=f"after:{cy}")) == []


def test_a_cursor_goes_on_where_the_last_poll_ended(graph: og.Graph) -> None:
    cursor = graph.changes().cursor
    assert told(graph.changes(cursor=cursor)) == []
    insert(graph, "Bob")
    page = graph.changes(cursor=cursor)
    assert told(page) == [["Bob"]]
    assert told(graph.changes(cursor=page.cursor)) == []
    assert told(graph.changes(cursor=cursor)) == [["Bob"]], "a cursor may be used again"
    insert(graph, "Cy")
    assert told(graph.changes(cursor=page.cursor)) == [["Cy"]]
    assert told(og.connect(graph.uri, read_only=True).changes(cursor=cursor)) == [["Bob"], ["Cy"]]


def test_commits_without_changes_move_the_cursor_only(graph: og.Graph) -> None:
    before = graph.changes().cursor
    graph.load([node("Ann")], mode="merge")
    graph.ensure_indices()
    graph.tables().create_schema("notes")

    page = graph.changes(cursor=before)
    assert page.blocks == ()
    assert page.cursor != before
    assert page.head_commit_id == graph.snapshot().commit_id
    assert page.next_page_token is None


def test_a_filter_selects_and_belongs_to_the_cursor(graph: og.Graph) -> None:
    page = graph.changes(start="beginning", kinds=["edge"])
    assert page.blocks == ()
    insert(graph, "Bob")
    graph.load(['{"edge": "Knows", "from": "Ann", "to": "Bob", "data": {"id": "k"}}'], mode="append")

    assert told(graph.changes(cursor=page.cursor, kinds=["edge", "edge"])) == [["k"]]
    assert rejection(graph, cursor=page.cursor) == "filter"
    assert rejection(graph, cursor=page.cursor, kinds=["edge"], ops=["insert"]) == "filter"
    assert rejection(graph, cursor=page.cursor, types=["Knows"]) == "filter"
    with pytest.raises(BadRequest, match="no type"):
        graph.changes(types=["Nobody"])


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 8192])
def test_pages_have_at_most_so_many_changes_and_end_at_the_head_they_began_with(graph: og.Graph, limit: int) -> None:
    insert(graph, *"BCDEF")
    insert(graph, "G")
    head = insert(graph, *"HIJ")
    page = graph.changes(start="beginning", limit=limit)
    pages, cursors = [page], {page.cursor}
    while page.next_page_token is not None:
        insert(graph, f"X{len(pages)}")
        page = graph.changes(page_token=page.next_page_token, limit=limit)
        pages.append(page)
        cursors.add(page.cursor)

    assert [each for page in pages for block in told(page) for each in block] == ["Ann", *"BCDEFGHIJ"]
    assert all(sum(map(len, told(page))) <= limit for page in pages)
    assert {page.head_commit_id for page in pages} == {head}
    assert all(block.is_complete for page in pages for block in page.blocks[:-1])
    assert pages[-1].blocks[-1].is_complete
    assert told(graph.changes(cursor=pages[-1].cursor)) == [[f"X{number}"] for number in range(1, len(pages))]


def test_a_cursor_never_stands_within_a_commit(graph: og.Graph) -> None:
    start = graph.changes().cursor
    insert(graph, *"BCDEF")
    first = graph.changes(cursor=start, limit=2)

    assert (told(first), first.blocks[0].is_complete) == ([["B", "C"]], False)
    assert first.cursor == start
    assert told(graph.changes(cursor=first.cursor)) == [list("BCDEF")], "the commit comes again as a whole"
    second = graph.changes(page_token=first.next_page_token, limit=2)
    third = graph.changes(page_token=second.next_page_token, limit=2)
    assert (told(second), told(third)) == ([["D", "E"]], [["F"]])
    assert second.cursor == start
    assert third.cursor == graph.changes().cursor
    assert third.next_page_token is None


def test_without_a_limit_commits_are_whole_and_a_page_looks_at_128(graph: og.Graph) -> None:
    for number in range(130):
        insert(graph, f"P{number:03}")
    page = graph.changes(start="beginning")

    assert len(page.blocks) == 127, "the first of 128 commits is the creation of the graph"
    assert page.next_page_token is not None
    rest = graph.changes(page_token=page.next_page_token)
    assert told(rest) == [[f"P{number}"] for number in range(126, 130)]
    assert told(graph.changes(cursor=page.cursor)) == told(rest)


def test_a_branch_has_the_history_of_its_base_and_merges_come_as_one_commit(graph: og.Graph) -> None:
    graph.create_branch("draft")
    main, draft = graph.changes().cursor, graph.changes("draft").cursor
    insert(graph, "Bob", branch="draft")
    insert(graph, "Cy", branch="draft")
    insert(graph, "Dee")
    graph.create_branch("twig", "draft")
    insert(graph, "Eve", branch="twig")
    graph.merge("twig", into="draft")
    graph.merge("draft")

    assert told(graph.changes(cursor=main)) == [["Dee"], ["Bob", "Cy", "Eve"]]
    assert told(graph.changes("draft", cursor=draft)) == [["Bob"], ["Cy"], ["Eve"]]
    assert told(graph.changes("twig", start="beginning")) == [["Ann"], ["Bob"], ["Cy"], ["Eve"]]
    assert [block.branch for block in graph.changes("twig", start="beginning").blocks] == ["main", "draft", "draft", "twig"]


def test_cursors_of_other_branches_and_graphs_are_rejected(graph: og.Graph, tmp_path: Path) -> None:
    cursor = graph.changes().cursor
    graph.create_branch("draft")
    insert(graph, "Bob", branch="draft")
    draft = graph.changes("draft", start="beginning", limit=1)
    other = og.init(tmp_path / "other", SCHEMA)

    assert rejection(other, cursor=cursor) == "graph"
    assert rejection(graph, branch="draft", cursor=cursor) == "branch"
    assert rejection(graph, cursor=draft.cursor) == "branch"
    assert rejection(graph, page_token=draft.next_page_token) == "branch"


def test_a_cursor_dies_with_its_branch(graph: og.Graph) -> None:
    graph.create_branch("draft")
    insert(graph, "Bob", "Cy", branch="draft")
    page = graph.changes("draft", start="beginning", limit=2)
    assert page.next_page_token is not None
    graph.delete_branch("draft")

    assert rejection(graph, branch="draft", cursor=page.cursor) == "branch"
    assert rejection(graph, branch="draft", page_token=page.next_page_token) == "branch"
    graph.create_branch("draft")
    insert(graph, "Bob", "Cy", branch="draft")
    assert rejection(graph, branch="draft", cursor=page.cursor) == "branch"
    assert rejection(graph, branch="draft", page_token=page.next_page_token) == "branch"
    with pytest.raises(NotFound, match="no branch"):
        graph.changes("nowhere")


def test_tokens_of_one_kind_are_refused_where_another_is_expected(graph: og.Graph) -> None:
    insert(graph, "Bob", "Cy")
    page = graph.changes(start="beginning", limit=1)
    commit_token = graph.commit_changes(graph.snapshot().commit_id, limit=1).next_page_token
    assert page.next_page_token is not None
    assert commit_token is not None

    assert rejection(graph, cursor=page.next_page_token) == "kind"
    assert rejection(graph, cursor=commit_token) == "kind"
    assert rejection(graph, page_token=page.cursor) == "kind"
    assert rejection(graph, page_token=commit_token) == "kind"
    for broken in ("", "x", page.cursor[:-2], page.cursor + "A", "A" + page.cursor, page.cursor * 30, "ü"):
        assert rejection(graph, cursor=broken) == "malformed"
        assert rejection(graph, page_token=broken) == "malformed"


def test_a_forged_cursor_names_no_place_outside_the_history(graph: og.Graph) -> None:
    graph.create_branch("draft")
    aside = insert(graph, "Bob", branch="draft")
    insert(graph, "Cy")
    cursor = from_text(FeedCursor, graph.changes().cursor)
    assert cursor.commit is not None

    for commit, version in ((aside, 1), (aside, 10**9), ("01ARZ3NDEKTSV4RRFFQ69G5FAV", 2), (cursor.commit + "0", 3)):
        forged = to_text(replace(cursor, commit=commit, version=version))
        assert rejection(graph, cursor=forged) == "history"


def test_one_place_to_start_from(graph: og.Graph) -> None:
    page = graph.changes(start="beginning", limit=1)
    requests: list[dict[str, Any]] = [
        {"cursor": page.cursor, "start": "now"},
        {"cursor": page.cursor, "page_token": page.cursor},
        {"start": "beginning", "page_token": page.cursor},
    ]
    for request in requests:
        with pytest.raises(BadRequest, match="one place"):
            graph.changes(**request)
    with pytest.raises(BadRequest, match="no start"):
        graph.changes(start="yesterday")
    with pytest.raises(NotFound, match="no commit"):
        graph.changes(start="after:01ARZ3NDEKTSV4RRFFQ69G5FAV")
    graph.create_branch("draft")
    aside = insert(graph, "Bob", branch="draft")
    graph.merge("draft")
    with pytest.raises(BadRequest, match="first parents"):
        graph.changes(start=f"after:{aside}")


def test_a_cursor_behind_a_cleanup_gets_a_gap_and_a_baseline_helps(graph: og.Graph) -> None:
    cursor = graph.changes().cursor
    first = insert(graph, "Bob")
    for name in "CDEF":
        insert(graph, name)
    with pytest.warns(UserWarning, match="keep"):
        graph.cleanup(keep=2)

    for reader in (graph, og.connect(graph.uri, read_only=True)):
        with pytest.raises(ChangeFeedGap) as caught:
            reader.changes(cursor=cursor)
        assert caught.value.first_unreadable_commit_id == first
        assert caught.value.cursor == cursor
        assert (caught.value.http_status, caught.value.exit_code) == (410, 1)

    *records, last = graph.baseline()
    resume = json.loads(last)["baseline"]["resume_cursor"]
    assert len(records) == 6
    insert(graph, "G")
    assert told(graph.changes(cursor=resume)) == [["G"]]


def test_what_is_readable_before_a_gap_is_delivered(graph: og.Graph) -> None:
    """A branch that keeps early versions of one table only: the gap is met in the middle of the history."""
    cursor = graph.changes().cursor
    insert(graph, "Bob")
    graph.load(['{"edge": "Knows", "from": "Ann", "to": "Bob", "data": {"id": "k1"}}'], mode="append")
    gone = graph.snapshot().commit_id
    for number in range(5):
        graph.load([json.dumps({"edge": "Knows", "from": "Ann", "to": "Bob", "data": {"id": f"l{number}"}})], mode="append")
    with pytest.warns(UserWarning, match="keep"):
        graph.cleanup(keep=2)

    page = graph.changes(cursor=cursor)
    assert told(page) == [["Bob"]]
    assert page.next_page_token is not None
    with pytest.raises(ChangeFeedGap) as caught:
        graph.changes(page_token=page.next_page_token)
    assert caught.value.cursor == page.cursor
    assert caught.value.first_unreadable_commit_id == gone
    with pytest.raises(ChangeFeedGap):
        graph.changes(cursor=page.cursor)


def test_a_baseline_ends_with_the_commit_and_the_cursor(graph: og.Graph) -> None:
    insert(graph, "Bob")
    stream = graph.baseline()
    insert(graph, "Cy")  # the stream shows the state that it was asked for
    lines = [json.loads(line) for line in stream]

    assert [line["data"]["id"] for line in lines[:-1]] == ["Ann", "Bob"]
    assert lines[-1].keys() == {"baseline"}
    assert lines[-1]["baseline"].keys() == {"snapshot_commit_id", "resume_cursor"}
    assert lines[-1]["baseline"]["snapshot_commit_id"] == graph.commits()[1].graph_commit_id
    assert told(graph.changes(cursor=lines[-1]["baseline"]["resume_cursor"])) == [["Cy"]]


def test_the_cursor_of_a_baseline_has_its_filter(graph: og.Graph) -> None:
    *records, last = graph.baseline(types=["Knows"], ops=["insert"])
    resume = json.loads(last)["baseline"]["resume_cursor"]

    assert records == []
    assert told(graph.changes(cursor=resume, types=["Knows"], ops=["insert"])) == []
    assert rejection(graph, cursor=resume) == "filter"
    assert len(list(graph.baseline(kinds=["node"]))) == 2
    with pytest.raises(NotFound, match="no branch"):
        graph.baseline("nowhere")
    with pytest.raises(BadRequest, match="no kind"):
        graph.baseline(kinds=["nodes"])


def test_the_dictionary_of_a_page_is_json(graph: og.Graph) -> None:
    document = graph.changes(start="beginning").to_dict()

    assert json.loads(json.dumps(document)) == document
    assert document["blocks"][0]["changes"][0]["after"] == {"type": "Person", "data": {"id": "Ann", "name": "Ann"}}
