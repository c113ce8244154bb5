"""A small graph, the operations that are interrupted, and what must be true of a graph that nobody is writing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors, failpoints
from tests.manifests import log_place, open_manifest
from tests.stores import Place, S3Place, patient

ACTOR = "ada"
RECOVERY = "omnigraph:recovery"
DIED = 86
"""The status of a process that a failpoint ended."""
CHILD = Path(__file__).with_name("child.py")
ROOT = Path(__file__).parents[2]

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  mood: enum(glad, sad)?
  @range(age, 0..150)
}
node Team {
  slug: String @key
}
node Place {
  slug: String @key
}
edge Knows: Person -> Person {
  since: I32?
}
edge Member: Person -> Team @card(0..2)
"""

TABLES = ["edge:Knows", "edge:Member", "node:Person", "node:Team"]
"""The tables with rows; `Place` stays empty, for writes that nothing else depends on."""


def node(kind: str, **data: Any) -> str:
    return json.dumps({"type": kind, "data": data})


def edge(kind: str, source: str, target: str, **data: Any) -> str:
    return json.dumps({"edge": kind, "from": source, "to": target, "data": data})


SEED = [
    node("Person", name="ann", age=30),
    node("Person", name="bob", age=40),
    node("Team", slug="red"),
    edge("Knows", "ann", "bob", id="k1", since=2001),
    edge("Member", "ann", "red", id="m1"),
]

INSERT = "query q($name: String) { insert Person { name: $name, age: 1 } }"
INSERT_TEAM = "query q($slug: String) { insert Team { slug: $slug } }"
UPDATE = 'query q() { update Person set { age: 31 } where name = "ann" }'
DELETE = 'query q() { delete Person where name = "ann" }'

Rows = dict[str, list[dict[str, Any]]]


def seeded(root: Place) -> og.Graph:
    """The graph every test starts from: one commit of init, one of a load by the actor."""
    graph = og.init(root, SCHEMA, actor=ACTOR)
    graph.load(SEED, mode="append")
    return graph


def rows(graph: og.Graph, branch: str = "main", **at: Any) -> Rows:
    """All entities by type, in the order of the export."""
    found: Rows = {}
    for text in graph.export(branch, **at):
        record = json.loads(text)
        name = record.get("type") or record["edge"]
        ends = {end: record[end] for end in ("from", "to") if end in record}
        found.setdefault(name, []).append(ends | record["data"])
    return found


def names(graph: og.Graph, branch: str = "main", kind: str = "Person", **at: Any) -> list[str]:
    return [row["id"] for row in rows(graph, branch, **at).get(kind, [])]


@contextmanager
def armed(rule: str) -> Iterator[None]:
    """Failpoints of this process, for a while."""
    failpoints.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(failpoints.VARIABLE, patient(rule))
        yield
    failpoints.reset()


def abandon(rule: str, operation: Callable[[], object]) -> None:
    """Run an operation that stops at a failpoint and does not clean up after itself, as if its process had died."""
    name, at, nth = rule.partition("@")
    with armed(f"{name}=panic{at}{nth}"), pytest.raises(failpoints.Panic):
        operation()


def spawn(root: Place, operation: str, rule: str = "", **settings: str) -> subprocess.Popen[str]:
    """A process of its own that opens the graph, arms the rule and runs one operation of `OPERATIONS`."""
    path = os.pathsep.join([str(ROOT), *sys.path])
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(root), operation, patient(rule)],
        env={**os.environ, "PYTHONPATH": path, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_child(root: Place, operation: str, rule: str = "", **settings: str) -> int:
    process = spawn(root, operation, rule, **settings)
    _, complaints = process.communicate(timeout=120)
    assert process.returncode in (0, DIED), complaints
    return process.returncode


# What must hold --------------------------------------------------------------------------------------------------


def head(root: Place, path: str, branch: str | None = None) -> int:
    """The newest version of a table, seen past the engine."""
    place = root / path if branch is None else root / path / "tree" / branch
    return int(lance.dataset(str(place)).version)


def place_of(graph: og.Graph) -> Place:
    """Where a graph lives."""
    if not graph.uri.startswith("s3://"):
        return Path(graph.uri)
    return S3Place(os.environ["AWS_ENDPOINT_URL"], graph.uri.removeprefix("s3://").partition("/")[2])


def heads(graph: og.Graph) -> dict[str, int]:
    """The head of every table on its main lineage."""
    return {key: head(place_of(graph), entry.path) for key, entry in graph.snapshot().entries.items()}


def pins(graph: og.Graph, branch: str = "main") -> dict[str, int]:
    return {key: entry.version for key, entry in graph.snapshot(branch=branch).entries.items()}


def sidecars(root: Place) -> list[Place]:
    """Files of the recovery directory; one that was never finished is no sidecar yet, and nobody reads it."""
    directory = root / "__recovery"
    found: list[Any] = [path for path in directory.rglob("*") if path.is_file()] if directory.exists() else []
    return sorted(path for path in found if not path.name.startswith(".tmp-"))


def table_branches(root: Place, path: str) -> list[str]:
    return sorted(lance.dataset(str(root / path)).branches.list())


def log(root: Place, name: str) -> list[dict[str, Any]]:
    place = log_place(root, name)
    found: list[dict[str, Any]] = lance.dataset(str(place)).to_table().to_pylist() if place.exists() else []
    return found


def audit(graph: og.Graph) -> list[dict[str, Any]]:
    return graph.recoveries()["audit"]


def kinds(graph: og.Graph) -> list[str]:
    return [row["recovery_kind"] for row in audit(graph)]


def assert_settled(graph: og.Graph) -> None:
    """No residue: pins are heads, nothing is pending, the journal is whole, no operation was audited twice."""
    root = place_of(graph)
    assert sidecars(root) == []
    _assert_pins_are_heads(graph)
    _assert_journal(graph)
    operations = [row["operation_id"] for row in audit(graph)]
    assert len(operations) == len(set(operations))


def _assert_pins_are_heads(graph: og.Graph) -> None:
    root = place_of(graph)
    for branch in graph.branches():
        for key, entry in graph.snapshot(branch=branch).entries.items():
            own = entry.branch is None if branch == "main" else (entry.branch or "").startswith(f"{branch}.")
            if own:
                assert head(root, entry.path, entry.branch) == entry.version, f"{key} on {branch} has drifted"
            else:
                assert head(root, entry.path, entry.branch) >= entry.version
    for path, published in _published_table_branches(graph).items():
        assert set(table_branches(root, path)) == published, f"{path} has table branches that nobody uses"


def _published_table_branches(graph: og.Graph) -> dict[str, set[str]]:
    """By path, the table branches that some version of a branch shows or showed: what was dropped can still be read."""
    root = place_of(graph)
    found: dict[str, set[str]] = {}
    for branch in graph.branches():
        rows = open_manifest(root, branch).to_table().to_pylist()
        paths = {row["table_key"]: row["location"] for row in rows if row["object_type"] == "table"}
        for row in rows:
            if row["object_type"] == "table_version":
                found.setdefault(paths[row["table_key"]], set()).update({row["table_branch"]} - {None})
    return found


def _assert_journal(graph: og.Graph) -> None:
    root = place_of(graph)
    recorded = log(root, "_graph_commits.lance")
    known = {row["graph_commit_id"]: row for row in recorded}
    # A race may record a commit twice, but never with two contents.
    assert all(row == known[row["graph_commit_id"]] for row in recorded), "two commits share an id"
    actors = {row["graph_commit_id"]: row["actor_id"] for row in log(root, "_graph_commit_actors.lance")}
    assert actors == {row["graph_commit_id"]: row["actor_id"] for row in recorded if row["actor_id"] is not None}
    on_main = {row["graph_commit_id"] for row in recorded if row["manifest_branch"] is None}
    assert on_main == set(first_parents(graph)), "a commit fell out of the history of main"
    for branch in graph.branches():
        intent = graph.snapshot(branch=branch).head
        assert intent is not None
        assert intent.graph_commit_id in known, f"the journal lacks the head of {branch}"
        history = [commit.graph_commit_id for commit in graph.commits(branch)]
        line = first_parents(graph, branch)
        assert [commit_id for commit_id in history if commit_id in set(line)] == line, f"{branch} is not one chain"
        assert set(history) <= known.keys()


def first_parents(graph: og.Graph, branch: str = "main") -> list[str]:
    """The ids of the commits that were made one after the other on a branch and on those that it came from."""
    parents = {commit.graph_commit_id: commit.parent_commit_id for commit in graph.commits(branch)}
    line = [graph.snapshot(branch=branch).commit_id]
    while (parent := parents[line[-1]]) is not None:
        line.append(parent)
    return line


def reopened(root: Place) -> og.Graph:
    """Opened twice: the first open recovers, the second finds nothing to do."""
    first = og.connect(root)
    before = (rows(first), pins(first), audit(first), len(first.commits()))
    second = og.connect(root)
    assert (rows(second), pins(second), audit(second), len(second.commits())) == before
    assert_settled(second)
    return second


def assert_writable(graph: og.Graph, branches: Iterable[str] = ("main",)) -> None:
    """Every table takes a write at the first try."""
    for branch in branches:
        before = rows(graph, branch)
        graph.load(
            [
                node("Person", name=f"zoe-{branch}"),
                node("Team", slug=f"z-{branch}"),
                edge("Knows", f"zoe-{branch}", "bob"),
                edge("Member", f"zoe-{branch}", f"z-{branch}"),
            ],
            mode="append",
            branch=branch,
        )
        after = rows(graph, branch)
        grown = {key: len(after[key]) - len(before.get(key, [])) for key in after if after[key] != before.get(key)}
        assert grown == {"Person": 1, "Team": 1, "Knows": 1, "Member": 1}
    assert_settled(graph)


# Operations ------------------------------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[[og.Graph], object]] = {
    "insert": lambda graph: graph.mutate(INSERT, params={"name": "cleo"}, actor="op"),
    "update": lambda graph: graph.mutate(UPDATE, actor="op"),
    "delete": lambda graph: graph.mutate(DELETE, actor="op"),
    "append": lambda graph: graph.load([node("Person", name="cleo")], mode="append", actor="op"),
    "merge": lambda graph: graph.load([node("Person", name="ann", age=31)], mode="merge", actor="op"),
    "overwrite": lambda graph: graph.load([edge("Knows", "bob", "ann", id="k2")], mode="overwrite", actor="op"),
    "many": lambda graph: graph.load(
        [
            node("Person", name="cleo"),
            node("Team", slug="blue"),
            edge("Knows", "cleo", "ann", id="k2"),
            edge("Member", "cleo", "blue", id="m2"),
        ],
        mode="append",
        actor="op",
    ),
    "many_merge": lambda graph: graph.load(
        [node("Person", name="ann", age=31), edge("Knows", "ann", "ann", id="k1")], mode="merge", actor="op"
    ),
    "many_overwrite": lambda graph: graph.load(
        [node("Team", slug="red"), node("Team", slug="blue"), edge("Member", "bob", "blue", id="m2")],
        mode="overwrite",
        actor="op",
    ),
    "first_touch": lambda graph: graph.mutate(INSERT, params={"name": "cleo"}, branch="draft", actor="op"),
    "first_touch_many": lambda graph: graph.load(
        [node("Person", name="cleo"), edge("Knows", "cleo", "ann", id="k2")], mode="append", branch="draft", actor="op"
    ),
    "first_touch_mixed": lambda graph: graph.load(
        [node("Person", name="dora"), edge("Knows", "dora", "ann", id="k3")], mode="append", branch="draft", actor="op"
    ),
    "nodes": lambda graph: graph.load([node("Person", name="cleo"), node("Team", slug="blue")], mode="append", actor="op"),
    "team": lambda graph: graph.mutate(INSERT_TEAM, params={"slug": "blue"}, actor="op"),
    "indexes": lambda graph: graph.ensure_indices(actor="op"),
    "first_touch_indexes": lambda graph: graph.ensure_indices("draft", actor="op"),
    "place": lambda graph: graph.load([node("Place", slug="here")], mode="append", actor="op"),
    "burst": lambda graph: burst(graph, f"p{os.getpid()}"),
    "open": lambda graph: graph,
    "create_branch": lambda graph: graph.create_branch("new"),
    "delete_branch": lambda graph: graph.delete_branch("draft"),
    "tag": lambda graph: graph.tag("v1", actor="op"),
    "delete_tag": lambda graph: graph.delete_tag("v0"),
    "branch_from_the_past": lambda graph: graph.create_branch("new", "main@1"),
    "branch_merge": lambda graph: graph.merge("draft", actor="op", message="both"),
    "branch_merge_down": lambda graph: graph.merge("main", "draft", actor="op", message="both"),
    "revert": lambda graph: graph.revert(commit_called(graph, "mistake"), actor="op"),
    "pick": lambda graph: graph.cherry_pick(commit_called(graph, "wanted", "draft"), actor="op"),
    "restore": lambda graph: graph.restore(commit_called(graph, "seed"), actor="op"),
    "stubborn": lambda graph: stubborn(graph, OPERATIONS["many"]),
}


def commit_called(graph: og.Graph, message: str, branch: str = "main") -> str:
    """The newest commit of a branch with a message."""
    return next(commit.graph_commit_id for commit in graph.commits(branch) if commit.message == message)


def diverged(root: Place) -> og.Graph:
    """Main and a branch, each with changes of its own in every table, and with a table, a view and a schema."""
    graph = og.init(root, SCHEMA, actor=ACTOR)
    graph.tables().create_table("main", "orders", pa.table({"n": [1, 2]}))
    graph.load(SEED, mode="append", message="seed")
    graph.create_branch("draft")
    wanted = [
        node("Person", name="ann", age=31),
        node("Person", name="cleo"),
        node("Team", slug="blue"),
        edge("Knows", "cleo", "ann", id="k2"),
        edge("Member", "cleo", "blue", id="m2"),
    ]
    graph.load(wanted, mode="merge", branch="draft", message="wanted")
    drafts = graph.tables("draft")
    drafts.append("main", "orders", pa.table({"n": [3]}))
    drafts.create_table("staging", "fees", pa.table({"n": [7]}))
    drafts.define_view("main", "seen", "select 1 as n", dialect="duckdb", columns=["n"])
    mistake = [
        node("Person", name="bob", age=41),
        node("Person", name="dora"),
        node("Team", slug="green"),
        edge("Knows", "dora", "ann", id="k3", since=1),
        edge("Member", "dora", "green", id="m3"),
    ]
    graph.load(mistake, mode="merge", message="mistake")
    return graph


def stubborn(graph: og.Graph, operation: Callable[[og.Graph], object]) -> None:
    """An operation that is interrupted from the keyboard, in a process that goes on living and tries it again."""
    try:
        operation(graph)
    except KeyboardInterrupt:
        assert_settled(graph)
        operation(graph)


def burst(graph: og.Graph, prefix: str, count: int = 3, tries: int = 50) -> list[str]:
    """Insert persons one by one; a writer that is told to try again does. Prints and returns those that were accepted."""
    accepted = []
    for number in range(count):
        for _ in range(tries):
            try:
                graph.mutate(INSERT, params={"name": f"{prefix}-{number}"}, actor="op")
            except (errors.Conflict, errors.ExpectedVersionMismatch):
                continue
            accepted.append(f"{prefix}-{number}")
            break
    print(*accepted)
    return accepted


TOUCHED: dict[str, list[str]] = {
    "insert": ["node:Person"],
    "update": ["node:Person"],
    "delete": ["edge:Knows", "edge:Member", "node:Person"],
    "append": ["node:Person"],
    "merge": ["node:Person"],
    "overwrite": ["edge:Knows"],
    "many": TABLES,
    "many_merge": ["edge:Knows", "node:Person"],
    "many_overwrite": ["edge:Member", "node:Team"],
    "first_touch": ["node:Person"],
    "first_touch_many": ["edge:Knows", "node:Person"],
    "team": ["node:Team"],
}
"""Tables whose head an operation moves, in the order in which it commits them."""


def branch_of(operation: str) -> str:
    return "draft" if operation.startswith("first_touch") else "main"


def prepared(root: Place, operation: str) -> og.Graph:
    """The graph an operation runs on."""
    graph = seeded(root)
    if branch_of(operation) == "draft" or operation == "delete_branch":
        graph.create_branch("draft")
    return graph


def expected_after(operation: str, before: Rows) -> Rows:
    """The rows once the operation is visible, written down independently of the engine."""
    after: Rows = {kind: [dict(row) for row in entities] for kind, entities in before.items()}

    def put(kind: str, **row: Any) -> None:
        kept = [each for each in after.get(kind, []) if each["id"] != row["id"]]
        after[kind] = sorted([*kept, row], key=lambda each: each["id"])

    match operation:
        case "insert" | "first_touch":
            put("Person", id="cleo", name="cleo", age=1)
        case "update" | "merge":
            put("Person", id="ann", name="ann", age=31)
        case "delete":
            after["Person"] = [row for row in after["Person"] if row["id"] != "ann"]
            del after["Knows"], after["Member"]
        case "append":
            put("Person", id="cleo", name="cleo")
        case "overwrite":
            after["Knows"] = [{"from": "bob", "to": "ann", "id": "k2"}]
        case "many" | "first_touch_many":
            put("Person", id="cleo", name="cleo")
            put("Knows", **{"from": "cleo"}, to="ann", id="k2")
            if operation == "many":
                put("Team", id="blue", slug="blue")
                put("Member", **{"from": "cleo"}, to="blue", id="m2")
        case "many_merge":
            put("Person", id="ann", name="ann", age=31)
            put("Knows", **{"from": "ann"}, to="ann", id="k1")
        case "many_overwrite":
            after["Team"] = [{"id": slug, "slug": slug} for slug in ("blue", "red")]
            after["Member"] = [{"from": "bob", "to": "blue", "id": "m2"}]
        case "team":
            put("Team", id="blue", slug="blue")
    return after
