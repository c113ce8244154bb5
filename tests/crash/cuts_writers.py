"""Every operation that writes, for the cuts: what it runs on, what it does, and when its result must be there.

A new writer is one more entry of `WRITERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import omnigraph_sql as og
from omnigraph_sql.choices import LoadMode
from omnigraph_sql.writes.load.staged_load import StagedLoad
from tests.crash import world
from tests.crash.world import DELETE, INSERT, OPERATIONS, UPDATE, abandon, edge, node

SCHEMA = world.SCHEMA + "node Doc { slug: String @key  title: String?  vector: Vector(4)? @embed(title) }\n"
ORDERS = pa.table({"id": [1, 2, 3], "text": ["a", "b", None]})
CLAIM = "__init_claim.json"

TABLE_VERSION = re.compile(r"(nodes|edges|tables)/[^/]+/(tree/.+/)?_versions/[0-9]+\.manifest")
PUBLISH = re.compile(r"__manifest/[0-9A-Z]+/(tree/.+/)?_versions/[0-9]+\.manifest")
SIDECAR = re.compile(r"__recovery/[^./]+\.json")


class Change(NamedTuple):
    """One change of a name under the root: the call, the name it leaves or takes away, and the one it was made from."""

    call: str
    name: str
    source: str = ""


class Expected(NamedTuple):
    visible: bool
    """Whether the operation's result is there."""
    audited: bool
    """Whether recovery must have dealt with it, once."""


Oracle = Callable[[Sequence[Change], Sequence[Change]], Expected]
"""From the changes before the cut, and all of them, to what must be there."""


def table_versions(changes: Sequence[Change]) -> int:
    return sum(each.call == "link" and TABLE_VERSION.fullmatch(each.name) is not None for each in changes)


def is_published(changes: Sequence[Change]) -> bool:
    return any(each.call == "link" and PUBLISH.fullmatch(each.name) for each in changes)


def protocol(before: Sequence[Change], whole: Sequence[Change]) -> Expected:
    """The write protocol: visible from the publish on, or once the head of every table has moved."""
    wanted = table_versions(whole)
    complete = wanted > 0 and table_versions(before) == wanted
    sidecars = [each.call for each in before if SIDECAR.fullmatch(each.name)]
    return Expected(is_published(before) or complete, audited=sidecars[-1:] == ["rename"])


def from_the(call: str, name: str) -> Oracle:
    """One change decides."""
    pattern = re.compile(name)

    def oracle(before: Sequence[Change], whole: Sequence[Change]) -> Expected:
        assert any(each.call == call and pattern.fullmatch(each.name) for each in whole), "the deciding change never came"
        return Expected(any(each.call == call and pattern.fullmatch(each.name) for each in before), audited=False)

    return oracle


def recovered(*, visible: bool) -> Oracle:
    """An operation whose fate was sealed before: recovery ends the same way wherever it is cut."""
    return lambda *_: Expected(visible, audited=True)


def seeded(root: Path) -> og.Graph:
    graph = og.init(root, SCHEMA, actor=world.ACTOR)
    graph.load(world.SEED, mode="append")
    return graph


@dataclass(frozen=True)
class Writer:
    """One operation."""

    run: Callable[[Any], object]
    """Gets what `opening` returned. The changes of this part are counted and cut."""
    prepare: Callable[[Path], object] = seeded
    oracle: Oracle = protocol
    opening: Callable[[Path], Any] = lambda root: og.connect(root, embedder="mock")
    again: Callable[[Any], object] | None = None
    """How an operation that was undone is repeated, where that is not `run`."""
    unseen: bool = False
    """Whether nothing changes that the branches show."""
    litters: bool = False
    """Whether it may leave table branches that nobody uses, for a cleanup to find."""


def on_draft(root: Path) -> None:
    seeded(root).create_branch("draft")


def tagged(root: Path) -> None:
    seeded(root).tag("v0")


def on_own_draft(root: Path) -> None:
    """A branch with tables of its own."""
    on_draft(root)
    OPERATIONS["first_touch_many"](og.connect(root))


def behind(root: Path) -> None:
    """A branch that has changed one table, and is behind main in the others."""
    graph = seeded(root)
    graph.create_branch("draft")
    graph.load([edge("Knows", "bob", "ann", id="k2")], mode="append", branch="draft")
    graph.load([node("Person", name="cleo"), node("Team", slug="blue")], mode="append")


def with_orders(root: Path) -> None:
    tables = seeded(root).tables()
    tables.create_table("main", "orders", ORDERS)
    tables.define_view("main", "v", "select 1", dialect="duckdb", columns=["x"])


def dropped(root: Path) -> None:
    """A table that was there and is gone, so that it must come back above its last version."""
    with_orders(root)
    og.connect(root).tables().drop("main", "orders")


def half_done(operation: str, point: str, base: Callable[[Path], object] = seeded) -> Callable[[Path], None]:
    """An operation whose writer stopped at a failpoint."""

    def prepare(root: Path) -> None:
        base(root)
        graph = og.connect(root)
        abandon(point, lambda: WRITERS[operation].run(graph))

    return prepare


def stage(root: Path, branch: str = "main") -> None:
    on_draft(root)
    graph = og.connect(root)
    records = [node("Person", name="cleo"), edge("Knows", "cleo", "ann", id="k2")]
    (root.parent / "staged.json").write_text(graph.stage(records, mode="append", branch=branch).to_json(), "utf-8")


def publish_staged(graph: og.Graph) -> None:
    text = (Path(graph.uri).parent / "staged.json").read_text("utf-8")
    graph.publish(StagedLoad.from_json(text), actor="op")


def stage_again(branch: str) -> Callable[[og.Graph], None]:
    def again(graph: og.Graph) -> None:
        records = [node("Person", name="cleo"), edge("Knows", "cleo", "ann", id="k2")]
        graph.publish(graph.stage(records, mode="append", branch=branch))

    return again


def with_history(root: Path) -> None:
    """Tables of many versions, and a table branch whose branch is gone."""
    on_own_draft(root)
    graph = og.connect(root)
    for name in ("one", "two"):
        graph.mutate(INSERT, params={"name": name})
    graph.load([node("Person", name=name) for name in ("ann", "bob", "one", "two")], mode="overwrite")
    abandon("branch_delete.before_table_cleanup", lambda: graph.delete_branch("draft"))


def clean_up(graph: og.Graph) -> None:
    graph.cleanup(older_than=timedelta(0))


def clean_up_again(graph: og.Graph) -> None:
    """What is left after a cleanup that was cut is gone after the next, young files included."""
    clean_up(graph)
    root = Path(graph.uri)
    assert all(each.is_empty for each in graph.cleanup(older_than=timedelta(0)))
    assert [path for path in (root / "_cleanup").glob("*") if path.is_file()] == []
    assert len(list((root / graph.snapshot().entries["node:Person"].path / "data").iterdir())) == 1


def initialise(root: Path) -> None:
    og.init(root, SCHEMA, actor=world.ACTOR)


def initialise_again(root: Path) -> None:
    (root / CLAIM).unlink(missing_ok=True)
    og.init(root, SCHEMA, actor=world.ACTOR, force=True)


def load(*records: str, mode: LoadMode, **options: Any) -> Callable[[og.Graph], object]:
    return lambda graph: graph.load(list(records), mode=mode, actor="op", **options)


def mutate(source: str, **options: Any) -> Callable[[og.Graph], object]:
    return lambda graph: graph.mutate(source, actor="op", **options)


def tables(write: Callable[[Any], object], branch: str = "main") -> Callable[[og.Graph], object]:
    return lambda graph: write(graph.tables(branch, actor="op"))


def itself(root: Path) -> Path:
    return root


def transact(transaction: og.Transaction) -> None:
    """Writes of many kinds, of which some see others."""
    transaction.load([node("Person", name="cleo"), edge("Knows", "cleo", "ann", id="k2")], mode="append")
    transaction.mutate(UPDATE)
    transaction.execute("create table made as select id from orders where id > 1; insert into orders values (4, 'd')")
    transaction.execute("update orders set text = 'x' where id = 1; create temp table scratch as select 1 as a")
    transaction.execute("create view seen as select id from made; drop view v")


def commits_of(branch: str = "main") -> Callable[[og.Graph], None]:
    def run(graph: og.Graph) -> None:
        with graph.transaction(branch, actor="op") as transaction:
            transact(transaction)

    return run


def orders_on_draft(root: Path) -> None:
    with_orders(root)
    og.connect(root).create_branch("draft")


def kept(root: Path) -> None:
    with_orders(root)
    transaction = og.connect(root).transaction()
    transact(transaction)
    transaction.keep("kept")


def resumes(graph: og.Graph) -> None:
    with graph.resume("kept", actor="op") as transaction:
        transaction.execute("insert into orders values (5, 'e')")


BOTH = (node("Person", name="cleo"), edge("Knows", "cleo", "ann", id="k2"))
MANY = (node("Person", name="cleo"), node("Team", slug="blue"), BOTH[1], edge("Member", "cleo", "blue", id="m2"))
TEAMS = (node("Team", slug="red"), node("Team", slug="blue"), edge("Member", "bob", "blue", id="m2"))
MORE = pa.table({"id": [4]})
CHANGED = pa.table({"id": [2, 9], "text": ["c", "z"]})

WRITERS: dict[str, Writer] = {
    "init": Writer(
        initialise,
        prepare=lambda _: None,
        oracle=from_the("link", r"__manifest/[0-9A-Z]+/_versions/[0-9]+\.manifest"),
        opening=itself,
        again=initialise_again,
    ),
    "append": Writer(load(node("Person", name="cleo"), mode="append")),
    "append_many": Writer(load(*MANY, mode="append")),
    "merge": Writer(load(node("Person", name="ann", age=31), edge("Knows", "ann", "ann", id="k1"), mode="merge")),
    "overwrite": Writer(load(*TEAMS, mode="overwrite")),
    "insert": Writer(mutate(INSERT, params={"name": "cleo"})),
    "update": Writer(mutate(UPDATE)),
    "delete": Writer(mutate(DELETE)),
    "embed": Writer(load(node("Doc", slug="a", title="tide"), mode="append")),
    "first_touch": Writer(mutate(INSERT, params={"name": "cleo"}, branch="draft"), on_draft),
    "first_touch_many": Writer(load(*BOTH, mode="append", branch="draft"), on_draft),
    "first_touch_delete": Writer(mutate(DELETE, branch="draft"), on_draft),
    "second_touch": Writer(load(*TEAMS, edge("Knows", "bob", "ann", id="k9"), mode="merge", branch="draft"), on_own_draft),
    "create_branch": Writer(
        lambda graph: graph.create_branch("new"), oracle=from_the("link", r"__manifest/[0-9A-Z]+/_branches/new\.json")
    ),
    "delete_branch": Writer(
        lambda graph: graph.delete_branch("draft"),
        on_own_draft,
        oracle=from_the("unlink", r"__manifest/[0-9A-Z]+/_branches/draft\.json"),
        litters=True,
    ),
    "branch_from_the_past": Writer(
        OPERATIONS["branch_from_the_past"], oracle=from_the("link", r"__manifest/[0-9A-Z]+/_branches/new\.json")
    ),
    "tag": Writer(OPERATIONS["tag"], oracle=from_the("link", PUBLISH.pattern)),
    "delete_tag": Writer(OPERATIONS["delete_tag"], tagged, oracle=from_the("link", PUBLISH.pattern)),
    "create_table": Writer(tables(lambda to: to.create_table("staging", "orders", ORDERS))),
    "create_table_again": Writer(tables(lambda to: to.create_table("main", "orders", MORE)), dropped),
    "create_table_on_draft": Writer(tables(lambda to: to.create_table("main", "orders", ORDERS), "draft"), on_draft),
    "replace_table": Writer(tables(lambda to: to.create_table("main", "orders", MORE, replace=True)), with_orders),
    "append_rows": Writer(tables(lambda to: to.append("main", "orders", MORE)), with_orders),
    "delete_rows": Writer(tables(lambda to: to.delete("main", "orders", "id = 2")), with_orders),
    "upsert_rows": Writer(tables(lambda to: to.upsert("main", "orders", CHANGED, ["id"])), with_orders),
    "rename_table": Writer(tables(lambda to: to.rename("main", "orders", "done", "clean")), with_orders),
    "define_view": Writer(
        tables(lambda to: to.define_view("main", "w", "select 2", dialect="duckdb", columns=["y"])), with_orders
    ),
    "table_to_view": Writer(
        tables(lambda to: to.define_view("main", "orders", "select 2", dialect="duckdb", columns=["y"], replace=True)),
        with_orders,
    ),
    "view_to_table": Writer(tables(lambda to: to.create_table("main", "v", MORE, replace=True)), with_orders),
    "drop_table": Writer(tables(lambda to: to.drop("main", "orders")), with_orders),
    "transaction": Writer(commits_of(), with_orders, litters=True),
    "transaction_on_draft": Writer(commits_of("draft"), orders_on_draft, litters=True),
    "resume": Writer(resumes, kept, litters=True),
    "publish_staged": Writer(publish_staged, stage, again=stage_again("main")),
    "publish_staged_on_draft": Writer(publish_staged, lambda root: stage(root, "draft"), again=stage_again("draft")),
    "cleanup": Writer(
        clean_up,
        with_history,
        oracle=lambda *_: Expected(visible=False, audited=False),
        again=clean_up_again,
        unseen=True,
        litters=True,
    ),
    "branch_merge": Writer(OPERATIONS["branch_merge"], world.diverged),
    "branch_merge_down": Writer(OPERATIONS["branch_merge_down"], world.diverged),
    "branch_merge_by_pointer": Writer(lambda graph: graph.merge("main", "draft", actor="op"), behind),
    "revert": Writer(OPERATIONS["revert"], world.diverged),
    "pick": Writer(OPERATIONS["pick"], world.diverged),
    "restore": Writer(OPERATIONS["restore"], world.diverged),
    "recover_back": Writer(
        og.connect, half_done("append_many", "write.post_table_commit@2"), recovered(visible=False), itself
    ),
    "recover_forward": Writer(
        og.connect, half_done("append_many", "write.post_effects_pre_publish"), recovered(visible=True), itself
    ),
    "recover_published": Writer(
        og.connect, half_done("append_many", "publish.after_merge"), recovered(visible=True), itself
    ),
    "recover_fork_back": Writer(
        og.connect, half_done("first_touch_many", "write.post_table_commit@1", on_draft), recovered(visible=False), itself
    ),
    "recover_fork_forward": Writer(
        og.connect,
        half_done("first_touch_many", "write.post_effects_pre_publish", on_draft),
        recovered(visible=True),
        itself,
    ),
    "recover_merge_back": Writer(
        og.connect, half_done("branch_merge", "merge.between_tables@2", world.diverged), recovered(visible=False), itself
    ),
    "recover_merge_forward": Writer(
        og.connect,
        half_done("branch_merge", "merge.post_effects_pre_publish", world.diverged),
        recovered(visible=True),
        itself,
    ),
    "recover_merge_down_back": Writer(
        og.connect,
        half_done("branch_merge_down", "merge.between_tables", world.diverged),
        recovered(visible=False),
        itself,
    ),
    "recover_revert_forward": Writer(
        og.connect, half_done("revert", "merge.post_effects_pre_publish", world.diverged), recovered(visible=True), itself
    ),
}
