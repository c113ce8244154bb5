"""A copy needs nothing of its original, whatever happens to either of them while it is made and afterwards."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors, failpoints
from tests.crash.branched import BRANCHES, ORDERS, assert_works, built, contents
from tests.crash.world import (
    DIED,
    INSERT,
    ROOT,
    UPDATE,
    Rows,
    abandon,
    armed,
    assert_settled,
    assert_writable,
    edge,
    names,
    node,
    reopened,
    rows,
    seeded,
)
from tests.internals import store_of
from tests.stores import Place, remove

POINTS = ["copy.after_claim", "copy.before_files", "copy.after_files", "copy.before_state"]
COPIER = "import sys, omnigraph_sql as og; og.connect(sys.argv[1]).copy(sys.argv[2], whole=sys.argv[3] == 'whole')"


def copier(source: Place, target: Place, what: str, rule: str = "") -> subprocess.Popen[bytes]:
    """A process that copies, with a failpoint armed."""
    path = os.pathsep.join([str(ROOT), *sys.path])
    command = [sys.executable, "-c", COPIER, str(source), str(target), what]
    environment = {**os.environ, "PYTHONPATH": path, failpoints.VARIABLE: rule}
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def run_copy(source: Place, target: Place, what: str, rule: str) -> int:
    """The status of a process that copies until it ends at a failpoint."""
    return copier(source, target, what, rule).wait(120)


def cleaned(graph: og.Graph) -> int:
    """How many versions a cleanup removed that keeps as little as there can be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_STAGING_GRACE", "1ms")
        return sum(stat.versions_removed for stat in graph.cleanup(older_than="1ms"))


def used(root: Place) -> None:
    """Branch, write, merge, clean up and build indexes, as in any graph."""
    graph = og.connect(root)
    graph.create_branch("work")
    for branch in ("main", "work"):
        graph.mutate(INSERT, params={"name": f"new-{branch}"}, branch=branch)
    graph.mutate(UPDATE, branch="work")
    graph.load([edge("Knows", "new-main", "ann", id="k9")], mode="merge")
    assert graph.merge("work").outcome == "merged"
    graph.delete_branch("work")
    graph.ensure_indices()
    graph.cleanup(keep=20)
    assert {"new-main", "new-work"} <= set(names(og.connect(root)))
    assert og.connect(root).recoveries() == {"pending": [], "quarantined": [], "audit": []}


# What a copy has -----------------------------------------------------------------------------------------------------


def test_a_whole_copy_is_the_graph_without_its_original(tmp_path: Path) -> None:
    graph = built(tmp_path / "g")
    expected = contents(graph)
    ids = {branch: [commit.graph_commit_id for commit in graph.commits(branch)] for branch in BRANCHES}

    made = graph.copy(tmp_path / "copy", whole=True)
    graph.close()
    remove(tmp_path / "g")

    assert made.branches == tuple(sorted(BRANCHES))
    opened = og.connect(tmp_path / "copy", read_only=True)
    assert {branch: [commit.graph_commit_id for commit in opened.commits(branch)] for branch in BRANCHES} == ids
    assert_works(tmp_path / "copy", expected)


def test_a_whole_copy_and_its_original_go_their_own_ways(tmp_path: Path) -> None:
    graph = built(tmp_path / "g")
    graph.copy(tmp_path / "copy", whole=True)
    twin = og.connect(tmp_path / "copy")

    for branch in BRANCHES:
        graph.mutate(INSERT, params={"name": f"here-{branch}"}, branch=branch)
        twin.mutate(INSERT, params={"name": f"there-{branch}"}, branch=branch)

    for branch in BRANCHES:
        assert {f"here-{branch}", f"there-{branch}"} & set(names(reopened(tmp_path / "g"), branch)) == {f"here-{branch}"}
        assert {f"here-{branch}", f"there-{branch}"} & set(names(reopened(tmp_path / "copy"), branch)) == {f"there-{branch}"}
    with pytest.raises(errors.NotFound):
        twin.snapshot(commit=graph.commits()[0].graph_commit_id)


def test_a_whole_copy_has_no_files_that_nothing_names(tmp_path: Path) -> None:
    graph = built(tmp_path / "g")
    graph.stage([node("Person", name="waiting")], mode="append")
    abandon("write.post_effects_pre_publish", lambda: graph.mutate(INSERT, params={"name": "lost"}, branch="draft"))

    og.connect(tmp_path / "g", read_only=True).copy(tmp_path / "copy", whole=True)

    twin = og.connect(tmp_path / "copy")
    assert twin.recoveries() == {"pending": [], "quarantined": [], "audit": []}
    assert "lost" not in names(twin, "draft")
    assert not (tmp_path / "copy" / "_staged").exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_STAGING_GRACE", "1ms")
        assert sum(stat.files_removed + stat.branches_removed for stat in twin.cleanup(keep=50)) == 0
    assert_writable(twin, BRANCHES)
    assert_settled(reopened(tmp_path / "copy"))


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_copy_of_a_branch_is_a_graph_of_its_own(tmp_path: Path, branch: str) -> None:
    graph = built(tmp_path / "g")
    expected, head = list(graph.export(branch)), graph.commits(branch)[0].graph_commit_id
    orders = "select count(*) as n from orders"
    relational = None if branch == "main" else graph.sql(orders, branch=branch).to_pylist()

    made = graph.copy(tmp_path / "copy", branch, actor="ben")
    graph.close()
    remove(tmp_path / "g")

    copied = og.connect(tmp_path / "copy")
    (first,) = copied.commits()
    assert (first.graph_commit_id, first.origin_commit_id, first.actor_id) == (made.commit_id, head, "ben")
    assert first.message == f"copy of {branch} of {graph.uri}"
    assert made.graph_id == store_of(copied).coordinator.table.identity.graph_id
    assert copied.branches() == ["main"]
    assert list(copied.export()) == expected
    if relational is not None:
        assert copied.sql(orders).to_pylist() == relational
        copied.tables().append("main", "orders", ORDERS)
        assert copied.sql(orders).to_pylist() == [{"n": 4}]
    used(tmp_path / "copy")


def test_a_copy_of_a_branch_may_be_moved_and_copied_again(tmp_path: Path) -> None:
    graph = built(tmp_path / "g")
    expected = list(graph.export("deep"))
    graph.copy(tmp_path / "one", "deep")
    remove(tmp_path / "g")
    (tmp_path / "one").rename(tmp_path / "moved")

    moved = og.connect(tmp_path / "moved")
    moved.create_branch("side")
    moved.mutate(INSERT, params={"name": "zoe"}, branch="side")
    moved.copy(tmp_path / "whole", whole=True)
    moved.copy(tmp_path / "again", "side")
    remove(tmp_path / "moved")

    assert list(og.connect(tmp_path / "whole").export()) == expected
    assert names(og.connect(tmp_path / "whole"), "side") == names(og.connect(tmp_path / "again"))
    used(tmp_path / "whole")
    used(tmp_path / "again")


def test_past_states_can_be_copied(tmp_path: Path) -> None:
    graph = built(tmp_path / "g")
    history = graph.commits("deep")
    before: dict[str, Rows] = {commit.graph_commit_id: rows(graph, commit=commit.graph_commit_id) for commit in history[1:]}
    for number, (commit_id, expected) in enumerate(before.items()):
        graph.copy(tmp_path / str(number), commit_id)
        assert rows(og.connect(tmp_path / str(number))) == expected
    graph.copy(tmp_path / "version", "main@2")
    assert rows(og.connect(tmp_path / "version")) == rows(graph, version=2)


def test_tags_name_states_to_copy_and_are_in_a_whole_copy(tmp_path: Path) -> None:
    graph = built(tmp_path / "g")
    graph.tag("v1")
    graph.tag("v2", "deep")
    graph.mutate(INSERT, params={"name": "late"})
    graph.mutate(INSERT, params={"name": "late"}, branch="deep")
    expected = {tag: rows(graph, commit=tag) for tag in ("v1", "v2")}

    for tag, shown in expected.items():
        graph.copy(tmp_path / tag, f"@{tag}")
        assert rows(og.connect(tmp_path / tag)) == shown
    graph.copy(tmp_path / "whole", whole=True)
    graph.close()
    remove(tmp_path / "g")

    copied = og.connect(tmp_path / "whole")
    assert {tag.name: rows(copied, commit=tag.name) for tag in copied.tags()} == expected
    assert cleaned(copied) > 0
    assert {tag.name: rows(copied, commit=tag.name) for tag in copied.tags()} == expected


def test_indexes_blobs_views_and_deletions_are_in_the_copy(tmp_path: Path) -> None:
    schema = "node Doc { slug: String @key  text: String @index(text)  vec: Vector(2)? @index  scan: Blob? }"
    graph = og.init(tmp_path / "g", schema)
    vectors = [[1.0, number / 300] for number in range(300)]
    body = {0: "base64:" + "QUJD" * 100_000, 1: "base64:QUJD"}
    records = [
        node("Doc", slug=f"d{number}", text=f"word{number} sea", vec=vectors[number], scan=body.get(number))
        for number in range(300)
    ]
    graph.load(records, mode="append")
    graph.ensure_indices(lance_text=True)
    graph.create_branch("draft")
    graph.mutate('query q() { delete Doc where slug = "d7" }', branch="draft")
    graph.tables("draft").create_schema("extra")
    graph.tables("draft").define_view("main", "slugs", "select slug from Doc", dialect="datafusion", columns=["slug"])
    graph.tables("draft").create_table("main", "gone", pa.table({"a": [1]}))
    graph.tables("draft").drop("main", "gone")
    expected = list(graph.export("draft"))
    near = "query near($v: Vector(2)) { match { $d: Doc } return { $d.slug } order { nearest($d.vec, $v) } limit 3 }"
    answer = graph.query(near, {"v": [1.0, 0.5]}, branch="draft").to_pylist()
    states = {state.name for state in store_of(graph).storage.indexes(_opened(graph, "draft"))}

    graph.copy(tmp_path / "copy", "draft")
    graph.close()
    remove(tmp_path / "g")

    copied = og.connect(tmp_path / "copy")
    assert list(copied.export()) == expected
    assert copied.query(near, {"v": [1.0, 0.5]}).to_pylist() == answer
    assert copied.sql("select count(*) as n from slugs").to_pylist() == [{"n": 299}]
    assert {state.name for state in store_of(copied).storage.indexes(_opened(copied, "main"))} == states
    assert sorted(copied.snapshot().entries) == ["node:Doc"]


def _opened(graph: og.Graph, branch: str) -> Any:
    return store_of(graph).storage.open(graph.snapshot(branch=branch).entry("node:Doc"))


def test_rows_keep_the_versions_that_wrote_them_so_that_diffs_and_merges_are_right(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    graph.load([node("Person", name=f"p{number}") for number in range(50)], mode="append")
    graph.copy(tmp_path / "copy")
    copied = og.connect(tmp_path / "copy")

    copied.create_branch("work")
    copied.mutate(UPDATE, branch="work")

    assert [(change.op, change.id) for change in copied.diff("main", "work").changes] == [("update", "ann")]
    assert copied.merge("work").changes["node:Person"].updates == 1


# Where it may go -----------------------------------------------------------------------------------------------------


def test_bad_destinations_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("x")
    seeded(tmp_path / "other")
    before = sorted(tmp_path.rglob("*"))
    cases: dict[str, type[errors.OmnigraphError]] = {
        "g": errors.BadRequest,
        "g/inside": errors.BadRequest,
        "file": errors.BadRequest,
        "full": errors.BadRequest,
        "other": errors.AlreadyInitialized,
    }
    for name, kind in cases.items():
        for whole in (False, True):
            with pytest.raises(kind) as refused:
                graph.copy(tmp_path / name, whole=whole)
            assert refused.value.hint
    for ref in ("nope", "main@99", "01J00000000000000000000000"):
        with pytest.raises(errors.NotFound):
            graph.copy(tmp_path / "new", ref)
    with pytest.raises(errors.BadRequest):
        graph.copy(tmp_path / "new", "main", whole=True)

    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_directory_is_a_good_destination(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    seeded(tmp_path / "g").copy(tmp_path / "copy")
    used(tmp_path / "copy")


def test_two_copies_to_one_place_exclude_each_other(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    with failpoints.pause("copy.after_files") as paused:
        first = threading.Thread(target=graph.copy, args=[tmp_path / "copy"])
        first.start()
        assert paused.reached.wait(60)
        with pytest.raises(errors.InitializationClaimed):
            og.connect(tmp_path / "g").copy(tmp_path / "copy")
        with pytest.raises(errors.InitializationClaimed):
            og.init(tmp_path / "copy", graph.schema)
        paused.resume.set()
        first.join()
    used(tmp_path / "copy")


# Interruptions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["whole", "state"])
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_copy_is_refused_as_incomplete_and_can_be_repeated(tmp_path: Path, point: str, what: str) -> None:
    graph = built(tmp_path / "g")
    assert run_copy(tmp_path / "g", tmp_path / "copy", what, f"{point}=exit") == DIED

    for read_only in (False, True):
        with pytest.raises(errors.NotFound, match="incomplete copy") as refused:
            og.connect(tmp_path / "copy", read_only=read_only)
        assert graph.uri in (refused.value.hint or "")
    with pytest.raises(errors.AlreadyInitialized, match="incomplete copy"):
        og.init(tmp_path / "copy", graph.schema, force=True)
    with pytest.raises(errors.AlreadyInitialized, match="incomplete copy"):
        graph.copy(tmp_path / "copy", "idle")

    graph.mutate(INSERT, params={"name": "late"})
    graph.delete_branch("idle")
    made = graph.copy(tmp_path / "copy", whole=what == "whole")
    assert (made.reused > 0) == (point in POINTS[2:])
    assert not (tmp_path / "copy" / "__copy.json").exists()
    assert not (tmp_path / "copy" / "__init_claim.json").exists()
    assert rows(og.connect(tmp_path / "copy")) == rows(graph)
    if what == "whole":
        assert og.connect(tmp_path / "copy").branches() == ["deep", "draft", "main"]
        assert [path for path in (tmp_path / "copy").rglob("*") if "idle" in str(path) and path.is_file()] == []
    used(tmp_path / "copy")


@pytest.mark.parametrize("what", ["whole", "state"])
def test_a_copy_may_be_killed_at_any_moment_and_again(tmp_path: Path, what: str) -> None:
    graph = built(tmp_path / "g")
    expected = contents(graph) if what == "whole" else rows(graph)
    random = Random(what)
    for _ in range(5):
        process = copier(tmp_path / "g", tmp_path / "copy", what)
        while not (tmp_path / "copy").exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(random.random() * 0.15)
        process.kill()
        process.wait()
        if (tmp_path / "copy" / "__schema_state.json").exists():
            break
        with pytest.raises(errors.NotFound, match=r"there is no graph|is not a graph|holds an incomplete copy"):
            og.connect(tmp_path / "copy", read_only=True)
    else:
        graph.copy(tmp_path / "copy", whole=what == "whole")

    copied = og.connect(tmp_path / "copy")
    assert (contents(copied) if what == "whole" else rows(copied)) == expected
    assert list((tmp_path / "copy").rglob(".tmp-*")) == []
    used(tmp_path / "copy")


@pytest.mark.parametrize("what", ["whole", "state"])
def test_a_copy_killed_after_its_last_file_is_complete(tmp_path: Path, what: str) -> None:
    graph = seeded(tmp_path / "g")
    assert run_copy(tmp_path / "g", tmp_path / "copy", what, "copy.after_state=exit") == DIED

    with pytest.raises(errors.AlreadyInitialized, match="holds a graph already"):
        graph.copy(tmp_path / "copy", whole=what == "whole")
    used(tmp_path / "copy")


@pytest.mark.parametrize("what", ["whole", "state"])
@pytest.mark.parametrize("nth", [2, 5])
def test_an_error_of_the_store_leaves_an_incomplete_copy(tmp_path: Path, what: str, nth: int) -> None:
    graph = built(tmp_path / "g")
    with armed(f"storage.object_write=error@{nth}"), pytest.raises(errors.Storage, match="failpoint"):
        graph.copy(tmp_path / "copy", whole=what == "whole")

    with pytest.raises(errors.NotFound):
        og.connect(tmp_path / "copy")
    graph.copy(tmp_path / "copy", whole=what == "whole")
    assert rows(og.connect(tmp_path / "copy")) == rows(graph)


def test_remains_of_a_copy_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    assert run_copy(tmp_path / "g", tmp_path / "copy", "state", "copy.after_files=exit") == DIED
    (tmp_path / "copy" / "__copy.json").write_text("{")

    with pytest.raises(errors.NotFound, match="incomplete copy"):
        og.connect(tmp_path / "copy")
    with pytest.raises(errors.Storage, match=r"__copy\.json"):
        graph.copy(tmp_path / "copy")


# While others work ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["whole", "state"])
def test_writes_while_a_copy_is_made_are_in_it_as_a_whole_or_not_at_all(tmp_path: Path, what: str) -> None:
    graph = built(tmp_path / "g")
    stop = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        writer = og.connect(tmp_path / "g")
        number = 0
        try:
            while not stop.is_set():
                number += 1
                pair = [node("Person", name=f"w{number}"), edge("Knows", f"w{number}", "ann", id=f"w{number}")]
                writer.load(pair, mode="append", branch=BRANCHES[number % 3])
                if number % 5 == 0:
                    writer.create_branch(f"b{number}", "draft")
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(4):
            graph.copy(tmp_path / str(number), "main" if what == "state" else None, whole=what == "whole")
    finally:
        stop.set()
        thread.join()

    assert failed == []
    for number in range(4):
        copied = og.connect(tmp_path / str(number))
        for branch in copied.branches():
            shown = rows(copied, branch)
            people = {row["id"] for row in shown["Person"] if row["id"].startswith("w")}
            assert people == {row["id"] for row in shown["Knows"] if row["id"].startswith("w")}
        assert_writable(copied, copied.branches())


@pytest.mark.parametrize("what", ["whole", "state"])
def test_a_cleanup_meanwhile_does_not_break_a_copy(tmp_path: Path, what: str) -> None:
    graph = seeded(tmp_path / "g")
    with failpoints.pause("copy.before_files") as paused:
        branch = "main" if what == "state" else None
        copier = threading.Thread(target=graph.copy, args=[tmp_path / "copy", branch], kwargs={"whole": what == "whole"})
        copier.start()
        assert paused.reached.wait(60)
        other = og.connect(tmp_path / "g")
        other.load([node("Person", name="ann", age=77), node("Person", name="bob", age=77)], mode="overwrite")
        assert cleaned(other) > 0
        paused.resume.set()
        copier.join()

    copied = og.connect(tmp_path / "copy")
    assert [row["age"] for row in rows(copied)["Person"]] == [77, 77]
    graph.close()
    remove(tmp_path / "g")
    assert_writable(og.connect(tmp_path / "copy"), copied.branches())


def test_a_state_that_a_cleanup_removed_is_an_error_and_not_half_a_copy(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    past = graph.commits()[0].graph_commit_id
    for number in range(3):
        graph.mutate(INSERT, params={"name": f"p{number}"})
    assert cleaned(graph) > 0

    with pytest.raises(errors.VersionReclaimed):
        graph.copy(tmp_path / "copy", past)
    with pytest.raises(errors.NotFound):
        og.connect(tmp_path / "copy")


def test_damage_of_the_original_is_reported_and_not_copied(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    place = tmp_path / "g" / graph.snapshot().entry("node:Person").path
    (lost,) = place.glob("data/*.lance")
    lost.unlink()

    for whole in (False, True):
        with pytest.raises(errors.Storage, match=lost.name):
            graph.copy(tmp_path / f"copy-{whole}", whole=whole)


def test_the_note_says_what_is_copied(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    assert run_copy(tmp_path / "g", tmp_path / "copy", "state", "copy.after_files=exit") == DIED

    note = json.loads((tmp_path / "copy" / "__copy.json").read_text())

    assert (note["source"], note["state"]) == (graph.uri, "main")
