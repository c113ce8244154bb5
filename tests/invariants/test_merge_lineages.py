"""Merges along all kinds of histories, of relational tables, of tables that were folded, and beside other writers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.manifest.relations import relations as listed
from omnigraph_sql.manifest.relations import schemas
from omnigraph_sql.storage import fold
from tests.concurrency.workers import team
from tests.crash.racing import paused, resumed
from tests.crash.world import armed, assert_settled, place_of, reopened
from tests.indexes import build_btrees
from tests.merges import edge, fingerprint, founded, node, put, remove, shown, versions
from tests.stores import Place

EVERYTHING = timedelta(0)


def people(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    """The ages of all persons."""
    return {name: row.get("age") for (kind, name), row in shown(graph, branch).items() if kind == "Person"}


def put_person(graph: og.Graph, branch: str, name: str, age: int) -> None:
    put(graph, branch, node("Person", name, age=age))


@pytest.fixture
def graph(place: Place) -> og.Graph:
    return founded(place / "g")


# Branches of branches ------------------------------------------------------------------------------------------------


def test_a_branch_of_a_branch_is_merged_past_its_parent(graph: og.Graph) -> None:
    graph.create_branch("a")
    put_person(graph, "a", "on a", 1)
    graph.create_branch("b", "a")
    put_person(graph, "b", "on b", 2)
    put_person(graph, "a", "later on a", 3)
    put_person(graph, "main", "on main", 4)

    result = graph.merge("b")

    assert (result.outcome, result.changes["node:Person"].inserts) == ("merged", 2)
    assert people(graph).keys() >= {"on a", "on b", "on main"}
    assert "later on a" not in people(graph)
    assert graph.merge("a").changes["node:Person"].inserts == 1
    assert graph.merge("main", "a").outcome == "fast_forward"
    assert people(graph, "a") == people(graph)
    assert graph.merge("a", "b").outcome == "fast_forward"
    assert people(graph, "b") == people(graph)
    assert_settled(graph)


def test_a_merge_into_a_branch_with_children_leaves_them_as_they_are(graph: og.Graph) -> None:
    graph.create_branch("a")
    put_person(graph, "a", "on a", 1)
    graph.create_branch("b", "a")
    graph.create_branch("c", "b")
    put_person(graph, "c", "on c", 2)
    before = {branch: shown(graph, branch) for branch in ("b", "c")}
    put_person(graph, "main", "dee", 60)

    graph.merge("main", "a")

    assert {branch: shown(graph, branch) for branch in ("b", "c")} == before
    assert people(graph, "a")["dee"] == 60
    assert graph.merge("a", "b").outcome == "fast_forward"
    assert graph.merge("c", "b").outcome == "merged"
    assert people(graph, "b") == people(graph, "a") | {"on c": 2}
    assert_settled(graph)


def test_back_and_forth_many_times(graph: og.Graph) -> None:
    graph.create_branch("a")
    for number in range(8):
        put_person(graph, "a", f"a{number}", number)
        put_person(graph, "main", f"m{number}", number)
        put_person(graph, "a" if number % 2 else "main", "dee", 100 + number)
        remove(graph, "main" if number % 2 else "a", "Person", f"a{number - 2}" if number > 1 else "nobody")
        assert graph.merge("a").outcome == "merged"
        assert graph.merge("main", "a").outcome == "fast_forward"
        assert shown(graph, "a") == shown(graph)
        assert graph.merge("a").outcome == "fast_forward"
        assert graph.merge("a").outcome == "already_up_to_date"
        assert people(graph)["dee"] == 100 + number
    left = {f"m{number}" for number in range(8)} | {"a6", "a7"}
    assert {name for name in people(graph) if name[1:].isdigit()} == left
    assert_settled(graph)


def test_a_row_that_was_changed_back_is_changed_back_by_the_merge(graph: og.Graph) -> None:
    """The base moves with every merge: compared with an older one, the row would look unchanged."""
    graph.create_branch("a")
    put_person(graph, "a", "dee", 21)
    graph.merge("a")
    put_person(graph, "a", "dee", 20)
    remove(graph, "a", "Person", "eve")

    result = graph.merge("a")

    assert people(graph)["dee"] == 20
    assert "eve" not in people(graph)
    assert (result.changes["node:Person"].updates, result.changes["node:Person"].deletes) == (1, 1)


# Crosswise merges ----------------------------------------------------------------------------------------------------


def crossed(graph: og.Graph) -> None:
    """Each of main and `a` has merged the other at the state before."""
    put_person(graph, "main", "both", 0)
    graph.create_branch("a")
    put_person(graph, "a", "on a", 1)
    put_person(graph, "main", "on main", 1)
    graph.create_branch("a-before", "a")
    graph.create_branch("main-before")
    graph.merge("a-before", "main")
    graph.merge("main-before", "a")


def test_what_was_deleted_after_crosswise_merges_stays_deleted(graph: og.Graph) -> None:
    """Neither nearest common ancestor has both rows; by itself each of them would bring one back."""
    crossed(graph)
    remove(graph, "main", "Person", "on a")
    remove(graph, "main", "Person", "on main")
    put_person(graph, "a", "dee", 77)

    result = graph.merge("a")

    assert "crosswise" in result.warnings[0]
    assert people(graph).keys() & {"on a", "on main"} == set()
    assert people(graph)["dee"] == 77
    assert graph.merge("main", "a").outcome == "fast_forward"
    assert people(graph, "a") == people(graph)


def test_changes_after_crosswise_merges_are_no_conflict(graph: og.Graph) -> None:
    crossed(graph)
    put_person(graph, "a", "on main", 5)
    put_person(graph, "main", "on a", 6)
    put(graph, "a", edge("Knows", "new", "on a", "on main"))

    graph.merge("a")

    assert (people(graph)["on main"], people(graph)["on a"]) == (5, 6)
    assert ("Knows", "new") in shown(graph)


def test_a_row_that_both_bases_changed_is_a_conflict_if_the_sides_differ(graph: og.Graph) -> None:
    put_person(graph, "main", "both", 0)
    graph.create_branch("a")
    put_person(graph, "a", "both", 1)
    put_person(graph, "main", "both", 2)
    graph.create_branch("a-before", "a")
    graph.create_branch("main-before")
    graph.merge("a-before", "main", resolve="ours")
    graph.merge("main-before", "a", resolve="ours")

    for granularity in ("row", "column"):
        with pytest.raises(errors.MergeConflicts) as met:
            graph.merge("a", granularity=granularity)
        assert [(conflict.kind, conflict.id) for conflict in met.value.conflicts] == [("DivergentUpdate", "both")]
    graph.merge("a", resolve="theirs")
    assert people(graph)["both"] == 1


def test_an_old_branch_that_both_sides_have_merged_is_no_base_below_a_newer_one(graph: og.Graph) -> None:
    """A fix of an old state is merged into both sides. The nearest ancestor by steps is older than the fork."""
    graph.create_branch("fix")
    put_person(graph, "main", "x", 1)
    graph.create_branch("a")
    for number in range(6):
        put_person(graph, "a", "busy", number)
    put_person(graph, "fix", "fixed", 1)
    graph.merge("fix", "a")
    graph.merge("fix")
    remove(graph, "main", "Person", "x")
    put_person(graph, "a", "dee", 5)

    graph.merge("a")

    assert "x" not in people(graph), "a row that was deleted came back"
    assert (people(graph)["fixed"], people(graph)["dee"], people(graph)["busy"]) == (1, 5, 5)


def test_relations_after_crosswise_merges(graph: og.Graph) -> None:
    table(graph, "main", "both", 1)
    graph.create_branch("a")
    table(graph, "a", "a", 1)
    table(graph, "main", "m", 1)
    graph.create_branch("a-before", "a")
    graph.create_branch("main-before")
    graph.merge("a-before", "main")
    graph.merge("main-before", "a")
    graph.tables().drop("main", "a")
    graph.tables().drop("main", "m")
    table(graph, "a", "both", 2)

    graph.merge("a")

    assert relations(graph) == {"main.both": [2]}


# Reloaded and repeated -----------------------------------------------------------------------------------------------


def test_a_branch_that_was_reloaded_with_the_same_rows_is_no_change(graph: og.Graph) -> None:
    graph.create_branch("a")
    graph.load([*graph.export()], mode="overwrite", branch="a")
    put_person(graph, "main", "dee", 50)
    before = versions(graph, "node:Person")

    result = graph.merge("a")

    assert (result.outcome, result.changes) == ("merged", {})
    assert versions(graph, "node:Person") == before
    assert graph.merge("main", "a").outcome == "fast_forward"
    assert people(graph, "a")["dee"] == 50


def test_a_branch_that_was_reloaded_with_other_rows(graph: og.Graph) -> None:
    graph.create_branch("a")
    records = [json.loads(line) for line in graph.export()]
    kept = [record for record in records if record["data"]["id"] not in ("eve", "n3")]
    for record in kept:
        if record["data"]["id"] == "bob":
            record["data"]["age"] = 41
    graph.load([json.dumps(record) for record in kept] + [node("Person", "new")], mode="overwrite", branch="a")
    put_person(graph, "main", "dee", 50)

    result = graph.merge("a")

    assert vars(result.changes["node:Person"]) == {"inserts": 1, "updates": 1, "deletes": 1}
    assert vars(result.changes["node:Note"]) == {"inserts": 0, "updates": 0, "deletes": 1}
    assert set(result.changes) == {"node:Person", "node:Note"}
    assert (people(graph)["bob"], people(graph)["dee"]) == (41, 50)
    put_person(graph, "a", "dee", 51)
    put_person(graph, "main", "dee", 52)
    with pytest.raises(errors.MergeConflicts):
        graph.merge("a")
    assert_settled(graph)


def test_reloading_the_target_is_a_change_of_what_differs(graph: og.Graph) -> None:
    graph.create_branch("a")
    put_person(graph, "a", "dee", 21)
    put_person(graph, "a", "bob", 41)
    graph.load([line for line in graph.export() if '"eve"' not in line], mode="overwrite")

    graph.merge("a")

    assert (people(graph)["dee"], people(graph)["bob"], "eve" in people(graph)) == (21, 41, False)


# Bases that are gone -------------------------------------------------------------------------------------------------


def test_a_base_whose_branch_is_gone_is_replaced_by_the_commit_that_forwarded_to_it(graph: og.Graph) -> None:
    graph.create_branch("fix")
    graph.create_branch("a")
    put_person(graph, "a", "on a", 1)
    put_person(graph, "fix", "fixed", 1)
    graph.merge("fix", "a")
    assert graph.merge("fix", delete_source=True).outcome == "fast_forward"
    remove(graph, "main", "Person", "fixed")
    put_person(graph, "a", "dee", 21)

    graph.merge("a")

    assert "fixed" not in people(graph), "a row that was deleted came back"
    assert (people(graph)["dee"], people(graph)["on a"]) == (21, 1)


def test_without_its_base_a_merge_is_refused(graph: og.Graph, place: Place) -> None:
    """An older common ancestor would bring back what the target deleted since."""
    graph.create_branch("fix")
    graph.create_branch("a")
    put_person(graph, "a", "on a", 1)
    put_person(graph, "main", "on main", 1)
    put_person(graph, "fix", "fixed", 1)
    graph.merge("fix", "a")
    graph.merge("fix", delete_source=True)
    remove(graph, "main", "Person", "fixed")
    before = fingerprint(place / "g")

    for dry in (False, True):
        with pytest.raises(errors.VersionReclaimed, match="cannot be read any more") as refused:
            graph.merge("a", dry_run=dry)
        assert "cherry_pick" in str(refused.value.hint)
    assert fingerprint(place / "g") == before
    picked = next(commit for commit in graph.commits("a") if (commit.manifest_branch, len(commit.parents)) == ("a", 1))
    assert graph.cherry_pick(picked.graph_commit_id).changes["node:Person"].inserts == 1
    assert (people(graph)["on a"], "fixed" in people(graph)) == (1, False)


def test_a_cleanup_leaves_what_the_next_merge_needs(graph: og.Graph) -> None:
    """A long-lived branch is merged again and again, and so is main into it; cleanups keep nothing but what is needed."""
    graph.create_branch("a")
    for number in range(4):
        put_person(graph, "a", f"a{number}", number)
        put_person(graph, "main", f"m{number}", number)
        graph.merge("a")
        put_person(graph, "a", f"x{number}", number)
        put_person(graph, "main", f"y{number}", number)
        remove(graph, "main", "Person", f"a{number}")
        graph.cleanup(older_than=EVERYTHING)
        graph.merge("main", "a")
        put_person(graph, "a", f"z{number}", number)
        put_person(graph, "main", f"w{number}", number)
        remove(graph, "a", "Person", f"m{number}")
        graph.cleanup(older_than=EVERYTHING)
    graph.merge("a")

    wanted = {f"{letter}{number}" for number in range(4) for letter in "xyzw"}
    assert {name for name in people(graph) if name[1:].isdigit()} == wanted
    assert all(stat.error is None for stat in graph.cleanup(older_than=EVERYTHING))


def test_a_cleanup_keeps_nothing_for_merges_of_branches_that_are_gone(graph: og.Graph) -> None:
    graph.create_branch("a")
    put_person(graph, "a", "on a", 1)
    graph.merge("a", delete_source=True)
    for number in range(3):
        put_person(graph, "main", "dee", number)

    graph.cleanup(older_than=EVERYTHING)

    head = graph.snapshot().entry("node:Person").version
    removed = [stat.versions_removed for stat in graph.cleanup(older_than=EVERYTHING)]
    assert sum(removed) == 0
    with pytest.raises(errors.VersionReclaimed):
        [*graph.export(version=graph.snapshot().manifest_version - 1)]
    assert head > 3


# Relations -----------------------------------------------------------------------------------------------------------


Step = Callable[[og.Graph, str], object]


def table(graph: og.Graph, branch: str, name: str, *numbers: int, schema: str = "main") -> None:
    graph.tables(branch).create_table(schema, name, pa.table({"n": pa.array(numbers, pa.int64())}), replace=True)


def more(graph: og.Graph, branch: str, name: str, *numbers: int) -> None:
    graph.tables(branch).append("main", name, pa.table({"n": pa.array(numbers, pa.int64())}))


def view(graph: og.Graph, branch: str, name: str, number: int, schema: str = "main") -> None:
    graph.tables(branch).define_view(schema, name, f"select {number} as n", dialect="duckdb", columns=["n"], replace=True)


def relations(graph: og.Graph, branch: str = "main") -> dict[str, list[Any]]:
    """The sorted rows of each table and view, by schema and name, past the engine."""
    snapshot = graph.snapshot(branch=branch)
    rows: dict[str, list[Any]] = {}
    for relation in listed(snapshot):
        if relation.definition is not None:
            rows[f"{relation.schema}.{relation.name}"] = [int(relation.definition["sql"].split()[1])]
            continue
        entry = snapshot.entry(relation.table_key)
        place = place_of(graph) / entry.path
        place = place if entry.branch is None else place / "tree" / entry.branch
        table = lance.dataset(str(place), version=entry.version).to_table(["n"])
        rows[f"{relation.schema}.{relation.name}"] = sorted(table.column("n").to_pylist())
    return rows


def both(*steps: Step) -> Step:
    def run(graph: og.Graph, branch: str) -> None:
        for step in steps:
            step(graph, branch)

    return run


NONE: Step = lambda *_: None  # noqa: E731
RELATIONS: dict[str, tuple[Step, Step, dict[str, Any] | None]] = {
    "created on one side": (lambda g, b: table(g, b, "new", 1, 2), NONE, {"main.new": [1, 2]}),
    "created beside others": (
        lambda g, b: table(g, b, "new", 1),
        lambda g, b: table(g, b, "other", 2),
        {"main.new": [1], "main.other": [2]},
    ),
    "created alike": (lambda g, b: table(g, b, "new", 2, 1), lambda g, b: table(g, b, "new", 1, 2), {"main.new": [1, 2]}),
    "created differently": (lambda g, b: table(g, b, "new", 1), lambda g, b: table(g, b, "new", 2), None),
    "replaced": (lambda g, b: table(g, b, "t", 7), NONE, {"main.t": [7]}),
    "replaced by other columns": (
        lambda g, b: g.tables(b).create_table("main", "t", pa.table({"n": [1.5], "m": ["x"]}), replace=True),
        NONE,
        {"main.t": [1.5]},
    ),
    "appended": (
        lambda g, b: more(g, b, "t", 3, 3),
        lambda g, b: view(g, b, "v", 5),
        {"main.t": [1, 2, 3, 3], "main.v": [5]},
    ),
    "appended on both sides": (lambda g, b: more(g, b, "t", 3), lambda g, b: more(g, b, "t", 4), None),
    "appended alike": (lambda g, b: more(g, b, "t", 3), lambda g, b: more(g, b, "t", 3), {"main.t": [1, 2, 3]}),
    "rows deleted": (lambda g, b: g.tables(b).delete("main", "t", "n = 1"), NONE, {"main.t": [2]}),
    "dropped": (lambda g, b: g.tables(b).drop("main", "t"), NONE, {"main.t": ...}),
    "dropped on both sides": (
        lambda g, b: g.tables(b).drop("main", "t"),
        lambda g, b: g.tables(b).drop("main", "t"),
        {"main.t": ...},
    ),
    "dropped and changed": (lambda g, b: g.tables(b).drop("main", "t"), lambda g, b: more(g, b, "t", 3), None),
    "dropped and made anew as it was": (
        both(lambda g, b: g.tables(b).drop("main", "t"), lambda g, b: table(g, b, "t", 1, 2)),
        lambda g, b: more(g, b, "t", 3),
        {"main.t": [1, 2, 3]},
    ),
    "renamed": (lambda g, b: g.tables(b).rename("main", "t", "u"), NONE, {"main.t": ..., "main.u": [1, 2]}),
    "renamed on both sides": (
        lambda g, b: g.tables(b).rename("main", "t", "u"),
        lambda g, b: g.tables(b).rename("main", "t", "w"),
        {"main.t": ..., "main.u": [1, 2], "main.w": [1, 2]},
    ),
    "renamed and changed": (lambda g, b: g.tables(b).rename("main", "t", "u"), lambda g, b: more(g, b, "t", 3), None),
    "a view defined": (lambda g, b: view(g, b, "w", 3), NONE, {"main.w": [3]}),
    "a view defined alike": (lambda g, b: view(g, b, "w", 3), lambda g, b: view(g, b, "w", 3), {"main.w": [3]}),
    "a view defined differently": (lambda g, b: view(g, b, "w", 3), lambda g, b: view(g, b, "w", 4), None),
    "a view dropped": (lambda g, b: g.tables(b).drop("main", "v"), NONE, {"main.v": ...}),
    "a table in place of a view": (lambda g, b: table(g, b, "v", 6), NONE, {"main.v": [6]}),
    "a view in place of a table": (lambda g, b: view(g, b, "t", 6), NONE, {"main.t": [6]}),
    "a table here, a view of its name there": (lambda g, b: table(g, b, "new", 1), lambda g, b: view(g, b, "new", 2), None),
    "a view in place of a table that the other side changed": (
        lambda g, b: view(g, b, "t", 6),
        lambda g, b: more(g, b, "t", 3),
        None,
    ),
    "a view and a table in place of each other": (
        both(lambda g, b: g.tables(b).drop("main", "t"), lambda g, b: view(g, b, "t", 6)),
        both(lambda g, b: g.tables(b).drop("main", "v"), lambda g, b: table(g, b, "v", 9)),
        {"main.t": [6], "main.v": [9]},
    ),
    "a schema with a table": (lambda g, b: table(g, b, "x", 1, schema="aux"), NONE, {"aux.x": [1]}),
    "two tables in one new schema": (
        lambda g, b: table(g, b, "x", 1, schema="aux"),
        lambda g, b: table(g, b, "y", 2, schema="aux"),
        {"aux.x": [1], "aux.y": [2]},
    ),
    "a schema dropped with all that is in it": (
        lambda g, b: g.tables(b).drop_schema("s", cascade=True),
        NONE,
        {"s.inside": ..., "s.seen": ...},
    ),
    "a schema dropped, and something new in it": (
        lambda g, b: g.tables(b).drop_schema("s", cascade=True),
        lambda g, b: table(g, b, "new", 1, schema="s"),
        None,
    ),
    "a schema dropped, and something in it changed": (
        lambda g, b: g.tables(b).drop_schema("s", cascade=True),
        lambda g, b: table(g, b, "inside", 1, schema="s"),
        None,
    ),
}


def with_relations(root: Place) -> og.Graph:
    graph = founded(root)
    table(graph, "main", "t", 1, 2)
    view(graph, "main", "v", 1)
    table(graph, "main", "inside", 8, schema="s")
    view(graph, "main", "seen", 9, schema="s")
    graph.create_branch("a")
    return graph


@pytest.mark.parametrize("swapped", [False, True], ids=["as is", "swapped"])
@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("case", RELATIONS)
def test_relations(place: Place, case: str, direction: str, swapped: bool) -> None:
    graph = with_relations(place / "g")
    first, second, expected = RELATIONS[case]
    source, target = ("a", "main") if direction == "up" else ("main", "a")
    (second if swapped else first)(graph, source)
    (first if swapped else second)(graph, target)
    base = {"main.t": [1, 2], "main.v": [1], "s.inside": [8], "s.seen": [9]}

    if expected is None:
        files = fingerprint(place / "g")
        with pytest.raises(errors.MergeConflicts) as met:
            graph.merge(source, target)
        assert {conflict.kind for conflict in met.value.conflicts} == {"DivergentTable"}
        assert fingerprint(place / "g") == files
        graph.merge(source, target, resolve="theirs")
        check_relations(graph, target)
        for conflict in met.value.conflicts:
            if conflict.entity_kind != "schema":
                name = conflict.type_name
                assert relations(graph, target).get(name) == relations(graph, source).get(name)
        return
    graph.merge(source, target)
    merged = {name: rows for name, rows in (base | expected).items() if rows is not ...}
    assert relations(graph, target) == merged
    assert graph.merge(source, target).outcome == "already_up_to_date"
    graph.merge(target, source)
    assert relations(graph, source) == merged
    for round_ in range(3):
        table(graph, source, "later", round_)
        graph.merge(source, target)
        view(graph, target, "seen later", round_)
        graph.merge(target, source)
    assert relations(graph, source) == relations(graph, target) == merged | {"main.later": [2], "main.seen later": [2]}
    check_relations(graph, target)


def check_relations(graph: og.Graph, branch: str) -> None:
    """Every name is there once, and every relation is in a schema that is there."""
    snapshot = graph.snapshot(branch=branch)
    names = [(each.schema, each.name) for each in listed(snapshot)]
    assert len(names) == len(set(names)), "a table and a view have one name"
    assert {schema for schema, _ in names} <= schemas(snapshot).keys()
    table(graph, branch, "writable", 1)
    assert_settled(graph)


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("case", [case for case, (*_, expected) in RELATIONS.items() if expected is None])
def test_decisions_about_relations(place: Place, case: str, side: str) -> None:
    graph = with_relations(place / "g")
    first, second, _ = RELATIONS[case]
    first(graph, "a")
    second(graph, "main")
    ours, theirs = relations(graph), relations(graph, "a")
    conflicts = graph.merge("a", dry_run=True).conflicts
    names = {conflict.type_name for conflict in conflicts}

    with pytest.raises(errors.BadRequest, match="no conflict about"):
        graph.merge("a", resolve=[{"type": "main.t", "id": "x", "values": {"n": 1}}, {"take": side}])
    assert relations(graph) == ours
    result = graph.merge("a", resolve={conflict.table_key: side for conflict in conflicts})

    assert result.resolved == len(conflicts)
    for name in names & (ours.keys() | theirs.keys()):
        assert relations(graph).get(name) == (ours if side == "ours" else theirs).get(name)
    if side == "theirs" and "s" in names:
        assert [name for name in relations(graph) if name.startswith("s.")] == []
    check_relations(graph, "main")


def test_a_revert_of_a_deletion_is_no_change_of_a_table(graph: og.Graph) -> None:
    """The rows come back in another order."""
    table(graph, "main", "t", 1, 2, 3)
    graph.create_branch("a")
    graph.tables().delete("main", "t", "n = 1")
    graph.revert(graph.commits()[0].graph_commit_id)
    more(graph, "a", "t", 4)

    graph.merge("a")

    assert relations(graph) == {"main.t": [1, 2, 3, 4]}


# Folded tables and indexes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("busy", ["source", "target", "both"])
def test_tables_that_were_folded_are_compared_by_their_rows(
    graph: og.Graph, busy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "MANY", 6)
    for number in range(5):
        put_person(graph, "main", f"early{number}", number)
    graph.create_branch("a")
    for branch in {"source": ["a"], "target": ["main"], "both": ["a", "main"]}[busy]:
        for number in range(16):
            put_person(graph, branch, f"{branch}{number}", number)
    put_person(graph, "a", "dee", 21)
    put_person(graph, "main", "bob", 41)
    remove(graph, "a", "Person", "early1")
    before = versions(graph, "node:Person")

    result = graph.merge("a")

    added = 16 if busy != "target" else 0
    assert vars(result.changes["node:Person"]) == {"inserts": added, "updates": 1, "deletes": 1}
    now = versions(graph, "node:Person")
    untouched = before.keys() - {"dee", "early1"}
    assert {name: now[name] for name in untouched} == {name: before[name] for name in untouched}
    assert (people(graph)["dee"], people(graph)["bob"]) == (21, 41)
    graph.merge("main", "a")
    assert shown(graph, "a") == shown(graph)
    assert_settled(graph)


def test_relational_tables_that_were_folded_make_no_false_conflict(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "MANY", 4)
    table(graph, "main", "t", 0)
    for number in range(1, 4):
        more(graph, "main", "t", number)
    graph.create_branch("a")
    for number in range(12):
        more(graph, "a", "t", number)
        graph.merge("a")
        graph.merge("main", "a")
        more(graph, "main", "t", number)
        graph.merge("main", "a")
    expected = sorted([*range(4), *range(12), *range(12)])
    assert relations(graph) == relations(graph, "a") == {"main.t": expected}


@pytest.mark.parametrize("where", ["a", "main"])
def test_tables_with_indexes_on_one_side(graph: og.Graph, where: str) -> None:
    put(graph, "main", *(node("Person", f"p{number}", age=number % 150) for number in range(300)))
    graph.create_branch("a")
    put_person(graph, "a", "p1", 99)
    put_person(graph, "main", "p2", 98)
    if where == "main":
        build_btrees(graph, lambda key: key in ("node:Person", "edge:Knows"))
    graph.ensure_indices(where)
    remove(graph, "a", "Person", "p3")

    result = graph.merge("a")

    assert vars(result.changes["node:Person"]) == {"inserts": 0, "updates": 1, "deletes": 1}
    assert (people(graph)["p1"], people(graph)["p2"], len(people(graph))) == (99, 98, 304)
    found = graph.query('query q() { match { $p: Person  $p.name = "p1" } return { $p.age as age } }').to_pylist()
    assert found == [{"age": 99}]
    graph.merge("main", "a")
    graph.ensure_indices("a")
    assert graph.merge("a").changes == {}
    assert_settled(graph)


# Other writers -------------------------------------------------------------------------------------------------------


def test_a_target_that_moves_meanwhile_is_merged_as_it_is_then(graph: og.Graph) -> None:
    graph.create_branch("a")
    put_person(graph, "a", "dee", 21)
    other = og.connect(graph.uri)

    for point in ("merge.post_authority_capture", "mutation.post_stage_pre_gates"):
        put_person(graph, "a", f"on a {point}", 1)
        with paused(point, lambda: graph.merge("a")) as (writer, pause):
            put_person(other, "main", f"on main {point}", 1)
            put(other, "main", edge("Knows", f"k {point}", "bob", f"on main {point}"))
            put_person(other, "a", f"too late {point}", 1)
            result = resumed(writer, pause)
        assert result.commit.parent_commit_id == graph.commit(result.commit.parent_commit_id).graph_commit_id
        assert {f"on a {point}", f"on main {point}"} <= people(graph).keys()
        assert f"too late {point}" not in people(graph), "the source was captured before"
    assert people(graph)["dee"] == 21
    assert_settled(graph)


def test_a_conflict_that_comes_up_meanwhile_stops_the_merge(graph: og.Graph) -> None:
    graph.create_branch("a")
    put_person(graph, "a", "dee", 21)
    other = og.connect(graph.uri)

    with paused("mutation.post_stage_pre_gates", lambda: graph.merge("a")) as (writer, pause):
        put_person(other, "main", "dee", 22)
        moved = other.snapshot()
        with pytest.raises(errors.MergeConflicts) as met:
            resumed(writer, pause)

    assert [(conflict.kind, conflict.id) for conflict in met.value.conflicts] == [("DivergentUpdate", "dee")]
    assert graph.snapshot() == moved
    assert_settled(graph)


@pytest.mark.parametrize("change", ["edge", "namesake", "node"])
def test_a_rule_that_a_write_breaks_between_the_check_and_the_publish(graph: og.Graph, change: str) -> None:
    """The tables that a merge only read are expected to be as they were when it is published."""
    graph.create_branch("a")
    if change == "edge":
        remove(graph, "a", "Person", "eve")
    elif change == "node":
        put(graph, "a", edge("Likes", "new", "bob", "eve"))
    else:
        table(graph, "a", "x", 1)
    other = og.connect(graph.uri)

    with paused("publish.before_merge", lambda: graph.merge("a")) as (writer, pause):
        if change == "edge":
            put(other, "main", edge("Likes", "new", "bob", "eve"))
        elif change == "node":
            remove(other, "main", "Person", "eve")
        else:
            view(other, "main", "x", 1)
        with pytest.raises(errors.MergeConflicts) as met:
            resumed(writer, pause)

    kind = "DivergentTable" if change == "namesake" else "OrphanEdge"
    assert [conflict.kind for conflict in met.value.conflicts] == [kind]
    assert_settled(reopened_graph(graph))


def reopened_graph(graph: og.Graph) -> og.Graph:
    return reopened(place_of(graph))


def test_a_target_that_never_stands_still_is_a_conflict_in_the_end(graph: og.Graph) -> None:
    graph.create_branch("a")
    put_person(graph, "a", "dee", 21)

    with armed("publish.force_contention=times(6)"), pytest.raises(errors.Conflict) as lost:
        graph.merge("a")

    assert lost.value.hint
    assert people(graph)["dee"] == 20
    assert graph.merge("a").changes["node:Person"].updates == 1
    assert_settled(graph)


def test_merges_beside_writers_in_other_processes(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every merge succeeds, whatever the others publish, and nothing of theirs is lost."""
    from tests.simulation.state import SCHEMA

    root = place / "g"
    graph = og.init(root, SCHEMA)
    graph.create_branch("a")
    with team(tmp_path_factory.mktemp("workers")) as workers:
        writers = [
            workers.start("commits", root=str(root), branch="main", name=f"w{number}", count=6) for number in range(2)
        ]
        for writer in writers:
            writer.await_line("ready")
        for number in range(6):
            graph.load([node("Person", f"m{number}")], mode="append", branch="a")
            assert graph.merge("a").commit is not None
        for writer in writers:
            writer.join()
    shown_names = {json.loads(line)["data"]["id"] for line in graph.export(types=["Person"])}
    assert shown_names == {f"{name}-{count}" for name in ("w0", "w1") for count in range(6)} | {f"m{n}" for n in range(6)}
    assert_settled(og.connect(root))


def test_a_source_that_moved_after_its_capture_is_not_deleted(graph: og.Graph) -> None:
    graph.create_branch("a")
    put_person(graph, "a", "dee", 21)
    other = og.connect(graph.uri)

    with paused("mutation.post_stage_pre_gates", lambda: graph.merge("a", delete_source=True)) as (writer, pause):
        put_person(other, "a", "late", 1)
        result = resumed(writer, pause)

    assert (result.outcome, result.branch_deleted) == ("fast_forward", False)
    assert "not merged" in str(result.branch_delete_error)
    assert people(graph, "a")["late"] == 1
    assert graph.merge("a", delete_source=True).branch_deleted


def test_a_source_that_is_deleted_meanwhile_fails_the_merge_and_nothing_is_half_done(graph: og.Graph) -> None:
    graph.create_branch("a")
    put(graph, "a", node("Person", "dee", age=21), node("Note", "new"))
    before = shown(graph)
    other = og.connect(graph.uri)

    with paused("merge.post_authority_capture", lambda: graph.merge("a")) as (writer, pause):
        other.delete_branch("a")
        with pytest.raises(errors.OmnigraphError) as failed:
            resumed(writer, pause)

    assert failed.value.kind in ("NotFound", "VersionReclaimed", "Conflict")
    assert shown(graph) == before
    assert_settled(og.connect(graph.uri))


# Repeated under a key ------------------------------------------------------------------------------------------------


def test_invariant_60_a_merge_is_repeated_by_its_key(graph: og.Graph) -> None:
    graph.create_branch("a")
    put_person(graph, "a", "dee", 21)
    put_person(graph, "main", "bob", 41)
    first = graph.merge("a", idempotency_key="k")
    put_person(graph, "a", "eve", 1)
    head = graph.snapshot()

    again = graph.merge("a", idempotency_key="k")

    assert (again.commit, again.outcome, again.replayed) == (first.commit, "merged", True)
    assert (first.replayed, graph.snapshot()) == (False, head)
    assert "eve" not in [name for name, age in people(graph).items() if age == 1]
    gone = graph.merge("a", idempotency_key="other", delete_source=True)
    assert gone.branch_deleted
    repeated = graph.merge("a", idempotency_key="other", delete_source=True)
    assert (repeated.commit, repeated.branch_deleted, repeated.replayed) == (gone.commit, True, True)
    with pytest.raises(errors.NotFound):
        graph.merge("a", idempotency_key="new")


def test_invariant_60_two_merges_with_one_key_at_once_are_one(graph: og.Graph) -> None:
    graph.create_branch("a")
    put_person(graph, "a", "dee", 21)
    other = og.connect(graph.uri)

    with paused("mutation.post_stage_pre_gates", lambda: graph.merge("a", idempotency_key="k")) as (writer, pause):
        first = other.merge("a", idempotency_key="k")
        second = resumed(writer, pause)

    assert second.commit == first.commit
    assert [commit.idempotency_key for commit in graph.commits()].count("k") == 1
    assert_settled(graph)
