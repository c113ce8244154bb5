"""Requests that reach the store late, never, or twice: nothing acknowledged is lost, and nothing comes to stand between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import OmnigraphError
from tests import stores
from tests.concurrency.jobs import TWO_TABLES, both
from tests.concurrency.workers import Team, Worker, team
from tests.crash.world import names
from tests.s3.proxy import Action, Proxy, proxied
from tests.stores import S3Place

CHANGING = "PUT|POST|DELETE"


@dataclass
class World:
    """A graph with a branch `b`, whose writers go through a proxy. The test itself does not."""

    root: S3Place
    proxy: Proxy
    workers: Team
    acknowledged: dict[str, set[str]] = field(default_factory=dict)
    """By branch, the names that an acknowledged write brought."""

    def start(self, operation: str, branch: str = "b", name: str = "late") -> Worker:
        """A writer that has opened the graph and begins its operation."""
        return self.workers.start("single", root=str(self.root), operation=operation, branch=branch, name=name)

    def init(self) -> og.Graph:
        graph = og.init(self.root, TWO_TABLES)
        self.acknowledged = {"main": set()}
        return graph

    def write(self, graph: og.Graph, branch: str, name: str) -> None:
        graph.load(both(name), mode="append", branch=branch)
        self.acknowledged[branch].add(name)

    def create(self, graph: og.Graph, branch: str = "b") -> None:
        graph.create_branch(branch)
        self.acknowledged[branch] = {*self.acknowledged["main"]}

    def delete(self, graph: og.Graph, branch: str = "b") -> None:
        graph.delete_branch(branch)
        del self.acknowledged[branch]


@pytest.fixture(scope="module")
def late(s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Team]]:
    """A proxy, and processes whose requests go through it."""
    with proxied(s3_endpoint) as proxy, pytest.MonkeyPatch.context() as patch:
        for name, value in stores.settings(proxy.endpoint).items():
            patch.setenv(name, value)
        patch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        with team(tmp_path_factory.mktemp("workers")) as workers:
            patch.undo()
            yield proxy, workers


@pytest.fixture
def world(root: S3Place, late: tuple[Proxy, Team]) -> Iterator[World]:
    proxy, workers = late
    yield World(root, proxy, workers)
    proxy.release()
    proxy.clear()


def seed(world: World, *, writes: int = 1) -> og.Graph:
    graph = world.init()
    world.write(graph, "main", "base")
    world.create(graph)
    for number in range(writes):
        world.write(graph, "b", f"old{number}")
    return graph


# What must hold ------------------------------------------------------------------------------------------------------


def check(world: World, *, late: str = "late", may_show: frozenset[str] = frozenset()) -> None:
    """The graph opens for writing and is whole; `may_show` are the branches that may show the late write, as a whole."""
    reader, graph = og.connect(world.root, read_only=True), og.connect(world.root)
    for opened in (reader, graph):
        shown = {branch: check_branch(opened, branch) for branch in world.acknowledged}
        for branch, people in shown.items():
            extra = people - world.acknowledged[branch]
            assert world.acknowledged[branch] <= people, f"{branch} has lost an acknowledged write"
            assert extra <= ({late} if branch in may_show else set()), f"{branch} shows {extra}"
    assert graph.recoveries()["pending"] == []
    for branch in sorted(set(graph.branches()) - set(world.acknowledged)):
        graph.delete_branch(branch)  # one whose creation nobody acknowledged
    for branch in world.acknowledged:
        world.write(graph, branch, f"after-{branch}")
        assert f"after-{branch}" in check_branch(og.connect(world.root), branch)


def check_branch(graph: og.Graph, branch: str) -> set[str]:
    """The names on a branch, which must be the same in both tables, and its history one chain."""
    people, teams = names(graph, branch), names(graph, branch, "Team")
    assert people == teams, f"half a write is on {branch}"
    assert len(people) == len(set(people)), f"a row is on {branch} twice"
    history = graph.commits(branch)
    parents = [commit.parent_commit_id for commit in history]
    assert parents == [*(commit.graph_commit_id for commit in history[1:]), None], f"{branch} is not one chain"
    return set(people)


# A request in flight when its writer is killed --------------------------------------------------------------------


def reopen(world: World) -> None:
    graph = og.connect(world.root)
    world.write(graph, "b", "new")
    world.write(graph, "main", "new")


def nothing(world: World) -> None:
    og.connect(world.root)


def remake(world: World) -> None:
    graph = og.connect(world.root)
    world.delete(graph)
    world.create(graph)
    world.write(graph, "b", "new")


def remake_before_a_write(world: World) -> None:
    graph = og.connect(world.root)
    world.delete(graph)
    world.create(graph)


def made_by_another(world: World) -> None:
    world.create(og.connect(world.root), "c")


def made_and_deleted(world: World) -> None:
    """By somebody else, who has every right to."""
    graph = og.connect(world.root)
    world.create(graph, "c")
    world.write(graph, "c", "new")
    world.delete(graph, "c")


def remade(world: World) -> None:
    """Deleted and made again, as far as the writer that died has left something to delete."""
    graph = og.connect(world.root)
    if "b" in graph.branches():
        world.delete(graph)
    world.create(graph)
    world.write(graph, "b", "new")


def replace_graph(writes: int) -> Callable[[World], None]:
    def replace(world: World) -> None:
        stores.remove(world.root)
        graph = world.init()
        for number in range(writes):
            world.write(graph, "main", f"new{number}")
        world.create(graph)

    replace.__name__ = f"replace_graph_{writes}"
    return replace


def hold_and_kill(world: World, writer: Worker) -> None:
    world.proxy.await_event("hold")
    writer.kill()
    world.proxy.clear()


PUBLISH = r"/__manifest/\w+/tree/[^/]+/_versions/"
PUBLISH_MAIN = r"/__manifest/\w+/_versions/"
RECORD = r"/_branches/[bc]\.json"
SIDECAR = r"/__recovery/\w+\.json"
TABLE = r"/nodes/[\w.]+/(tree/[^/]+/)?_versions/"
LINEAGE = r"/_refs/branches/c\."
JOURNAL = r"/_graph_commits\.lance/\w+/_versions/"

B, MAIN, BOTH, NONE = frozenset({"b"}), frozenset({"main"}), frozenset({"b", "main"}), frozenset[str]()
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("operation", "branch", "pattern", "meanwhile", "may_show"),
    [
        ("write", "b", PUBLISH, remake, NONE),
        ("write", "b", SIDECAR, remake_before_a_write, NONE),
        ("write", "main", TABLE, reopen, MAIN),
        ("write", "main", TABLE, replace_graph(0), NONE),
        ("create", "c", RECORD, made_and_deleted, NONE),
        pytest.param("write", "b", PUBLISH, reopen, B, marks=SLOW),
        pytest.param("write", "b", TABLE, remake, NONE, marks=SLOW),
        pytest.param("write", "b", TABLE, nothing, B, marks=SLOW),
        pytest.param("write", "b", SIDECAR, reopen, B, marks=SLOW),
        pytest.param("write", "main", TABLE, nothing, MAIN, marks=SLOW),
        pytest.param("write", "main", PUBLISH_MAIN, replace_graph(1), NONE, marks=SLOW),
        pytest.param("write", "main", TABLE, replace_graph(1), NONE, marks=SLOW),
        pytest.param("write", "main", SIDECAR, replace_graph(1), NONE, marks=SLOW),
        pytest.param("write", "main", JOURNAL, replace_graph(0), NONE, marks=SLOW),
        pytest.param("create", "c", RECORD, made_by_another, NONE, marks=SLOW),
        pytest.param("create", "c", RECORD, nothing, NONE, marks=SLOW),
        pytest.param("create", "c", LINEAGE, made_by_another, NONE, marks=SLOW),
    ],
)
def test_a_request_that_arrives_after_its_writer_died(
    world: World, operation: str, branch: str, pattern: str, meanwhile: Callable[[World], None], may_show: frozenset[str]
) -> None:
    seed(world)
    world.proxy.apply("hold", "PUT", pattern)
    hold_and_kill(world, world.start(operation, branch))
    meanwhile(world)

    world.proxy.release()

    check(world, may_show=may_show)


def test_a_deletion_that_arrives_after_the_branch_was_made_anew(world: World) -> None:
    graph = seed(world)
    world.proxy.apply("hold", "DELETE|PUT", RECORD)
    hold_and_kill(world, world.start("delete"))
    world.delete(graph)
    world.create(graph)
    world.write(graph, "b", "new")

    world.proxy.release()

    check(world)


@pytest.mark.parametrize("pattern", ["/_schema", "/__schema_state", PUBLISH_MAIN, TABLE])
@SLOW
def test_an_initialisation_that_arrives_after_another_one(world: World, pattern: str) -> None:
    world.proxy.apply("hold", "PUT", pattern)
    hold_and_kill(world, world.start("init"))
    seed(world)

    world.proxy.release()

    check(world)


MEANWHILE = [
    ("write", "b", reopen, B),
    ("write", "b", remake, NONE),
    ("write", "main", reopen, MAIN),
    ("write", "main", replace_graph(0), NONE),
    ("write", "main", replace_graph(1), NONE),
    ("write", "main", replace_graph(2), NONE),
    ("create", "c", made_and_deleted, NONE),
    ("create", "c", made_by_another, NONE),
    ("delete", "b", remade, NONE),
]


@SLOW
@pytest.mark.parametrize(
    ("operation", "branch", "meanwhile", "may_show"),
    MEANWHILE,
    ids=[f"{row[0]}-{row[1]}-{row[2].__name__}" for row in MEANWHILE],
)
def test_any_request_that_arrives_after_its_writer_died(
    world: World, operation: str, branch: str, meanwhile: Callable[[World], None], may_show: frozenset[str]
) -> None:
    """Each request that changes something, in turn; requests after it are not sent."""
    for number in count():
        world = replace(world, root=world.root / str(number))
        seed(world)
        world.proxy.apply("hold", CHANGING, world.root.key, skip=number)
        writer = world.start(operation, branch)
        if not held_or_done(world, writer):
            assert number > 3
            return
        writer.kill()
        [event] = world.proxy.events()
        world.proxy.clear()
        try:
            meanwhile(world)
            world.proxy.release()
            check(world, may_show=may_show)
        except (AssertionError, OmnigraphError) as error:
            error.add_note(f"held: {event}")
            raise


def held_or_done(world: World, writer: Worker) -> bool:
    """Wait until a request of a writer is held; False if it did its work without."""
    while not world.proxy.events():
        if any(line.startswith(("done", "refused")) for line in writer.said()):
            writer.join()
            return bool(world.proxy.events())
        time.sleep(0.02)
    return True


# Answers that never arrive -----------------------------------------------------------------------------------------

OUTCOMES = ("done", "refused")
LOCK = "/_locks/"


@pytest.mark.parametrize(
    ("operation", "branch", "method", "pattern"),
    [
        ("write", "b", "PUT", PUBLISH),
        ("create", "c", "PUT", RECORD),
        ("delete", "b", "DELETE|PUT", RECORD),
        ("init", "main", "PUT", "/__init_claim"),
        pytest.param("write", "b", "PUT", SIDECAR, marks=SLOW),
        pytest.param("write", "b", "POST", r"/graphs/?$", marks=SLOW),  # deletes objects
        pytest.param("write", "b", "PUT", TABLE, marks=SLOW),
        pytest.param("write", "b", "PUT", JOURNAL, marks=SLOW),
        pytest.param("write", "b", "PUT", LOCK, marks=SLOW),
        pytest.param("write", "main", "PUT", PUBLISH_MAIN, marks=SLOW),
        pytest.param("write", "main", "PUT", TABLE, marks=SLOW),
        pytest.param("stage", "b", "PUT", PUBLISH, marks=SLOW),
        pytest.param("create", "c", "PUT", LINEAGE, marks=SLOW),
        pytest.param("init", "main", "PUT", "/_schema", marks=SLOW),
        pytest.param("init", "main", "PUT", PUBLISH_MAIN, marks=SLOW),
        pytest.param("init", "main", "PUT", TABLE, marks=SLOW),
    ],
)
def test_an_answer_that_is_lost(world: World, operation: str, branch: str, method: str, pattern: str) -> None:
    """The operation is done once; whoever asked learns that it was."""
    if operation != "init":
        seed(world)
    world.proxy.apply("drop_answer", method, pattern)

    writer = world.start(operation, branch)
    writer.join()

    assert world.proxy.await_event("drop_answer").status in (200, 204)
    assert writer.said()[-1] == "done"
    perform(world, operation, branch)
    check(world)


@SLOW
@pytest.mark.parametrize("action", ["drop_answer", "drop_request", "repeat", "delay"])
@pytest.mark.parametrize(
    ("operation", "branch"), [("write", "b"), ("write", "main"), ("create", "c"), ("delete", "b"), ("stage", "b")]
)
def test_a_network_that_loses_and_repeats(world: World, operation: str, branch: str, action: Action) -> None:
    for every in (1, 2, 3) if action in ("repeat", "delay") else (2, 3, 4):
        world = replace(world, root=world.root / str(every))
        seed(world)
        world.proxy.apply(action, CHANGING, world.root.key, times=10_000, every=every)

        writer = world.start(operation, branch)
        writer.join()

        world.proxy.clear()
        outcome = writer.said()[-1]
        assert outcome.startswith(OUTCOMES)
        if outcome == "done":
            perform(world, operation, branch)
        check(world, may_show=BOTH if outcome.startswith("refused RecoveryRequired") else NONE)


def perform(world: World, operation: str, branch: str) -> None:
    """What an operation that was acknowledged changes."""
    if operation in ("write", "stage"):
        world.acknowledged[branch].add("late")
    elif operation == "create":
        world.acknowledged[branch] = {*world.acknowledged["main"]}
    elif operation == "delete":
        del world.acknowledged[branch]
    else:
        world.acknowledged = {"main": set()}
