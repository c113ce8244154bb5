"""A graph with branches of branches, and everything that one can do with it."""

import pyarrow as pa

import omnigraph_sql as og
from tests.crash.world import INSERT, UPDATE, assert_settled, assert_writable, edge, names, reopened, rows, seeded
from tests.stores import Place

BRANCHES = ["main", "draft", "deep", "idle"]
ORDERS = pa.table({"id": [1, 2], "text": ["a", "b"]})
PEOPLE = "query q() { match { $p: Person } return { $p.name } }"


def built(root: Place) -> og.Graph:
    """A graph with tables on a branch, on a branch of it, and on one that nobody has written to."""
    graph = seeded(root)
    graph.create_branch("draft")
    graph.mutate(INSERT, params={"name": "cleo"}, branch="draft")
    graph.load([edge("Knows", "cleo", "ann", id="k2")], mode="append", branch="draft")
    graph.tables("draft").create_table("main", "orders", ORDERS)
    graph.ensure_indices("draft")
    graph.create_branch("deep", "draft")
    graph.mutate(UPDATE, branch="deep")
    graph.mutate(INSERT, params={"name": "dora"}, branch="deep")
    graph.create_branch("idle", "deep")
    graph.mutate(INSERT, params={"name": "eve"})
    return graph


def contents(graph: og.Graph) -> dict[str, object]:
    """Everything that each branch shows, and showed."""
    return {
        branch: (
            rows(graph, branch),
            sorted(graph.query(PEOPLE, branch=branch).to_pylist(), key=str),
            graph.sql("select count(*) as n from Knows", branch=branch, engine="duckdb").to_pylist(),
            [len(list(graph.export(commit=commit.graph_commit_id))) for commit in graph.commits(branch)],
        )
        for branch in BRANCHES
    }


def assert_works(root: Place, expected: dict[str, object]) -> None:
    """It reads as before, takes writes on every branch, and its branches come and go."""
    assert contents(og.connect(root, read_only=True)) == expected
    graph = og.connect(root)
    assert contents(graph) == expected
    assert graph.sql('select count(*) as n from "orders"', branch="deep").to_pylist() == [{"n": 2}]
    graph.create_branch("more", "deep")
    for branch in [*BRANCHES, "more"]:
        before = names(graph, branch)
        graph.mutate(INSERT, params={"name": f"new-{branch}"}, branch=branch)
        graph.mutate(UPDATE, branch=branch)
        assert names(graph, branch) == sorted([*before, f"new-{branch}"])
    graph.tables("idle").append("main", "orders", ORDERS)
    graph.ensure_indices("more")
    graph.cleanup(keep=20)
    graph = reopened(root)
    assert_writable(graph, [*BRANCHES, "more"])
    for branch in ("more", "idle", "deep", "draft"):
        graph.delete_branch(branch)
    assert_settled(reopened(root))
