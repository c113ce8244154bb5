"""A graph with a file of every kind, what is asked of it, and the ways in which a file is damaged."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import omnigraph_sql as og
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.writes.load.staged_load import StagedLoad
from tests.crash.world import abandon, edge, node

SCHEMA = """
node Person { name: String @key  bio: String? @index }
node Team { slug: String @key }
node Place { slug: String @key }
edge Knows: Person -> Person
"""
BRANCHES = ("main", "b", "bb")
"""`bb` was made from `b`."""
STAGED = "staged.json"
INSERT = "query q($name: String) { insert Person { name: $name } }"
READS = {
    "Person": "query q() { match { $p: Person } return { $p.name, $p.bio } order { $p.name } }",
    "Team": "query q() { match { $t: Team } return { $t.slug } order { $t.slug } }",
    "Knows": "query q() { match { $p: Person  $p knows $q } return { $p.name, $q.name } order { $p.name, $q.name } }",
    "search": 'query q() { match { $p: Person } return { $p.name } order { bm25($p.bio, "ship") desc } limit 2 }',
}


def build(root: Path) -> None:
    """Make the graph, with a staged load whose description lies beside it."""
    graph = og.init(root, SCHEMA)
    people = [node("Person", name=name, bio=f"{name} has a ship") for name in ("ann", "bob", "cleo")]
    graph.load([*people, node("Team", slug="red"), edge("Knows", "ann", "bob", id="k1")], mode="append")
    graph.tables().create_table("main", "notes", pa.table({"n": pa.array([1, 2], pa.int64())}))
    graph.tables().define_view("main", "v", "select n from main.notes", dialect="duckdb", columns=["n"])
    graph.ensure_indices()
    graph.create_branch("b")
    graph.load([node("Person", name="dora"), node("Team", slug="blue")], mode="append", branch="b")
    graph.create_branch("bb", "b")
    graph.load([node("Person", name="eve"), node("Team", slug="green")], mode="append", branch="bb")
    graph.mutate('query q() { update Person set { bio: "no ship" } where name = "bob" }', branch="bb")
    graph.mutate('query q() { delete Person where name = "cleo" }')
    for branch in BRANCHES:
        for text in READS.values():
            graph.query(text, branch=branch).to_pylist()
    staged = graph.stage([node("Person", name="gus")], mode="append", branch="bb")
    (root.parent / STAGED).write_text(staged.to_json())
    place = lambda: graph.load([node("Place", slug="here")], mode="append")  # noqa: E731
    abandon("write.post_effects_pre_publish", place)


@dataclass(frozen=True)
class Answer:
    """What came of one question: rows, or an error."""

    question: str
    value: Any = None
    error: str | None = None
    """The kind of an error of the family, with its message and hint."""
    raw: str | None = None
    """Any other exception."""

    def to_json(self) -> str:
        return json.dumps(vars(self))


def ask(root: Path) -> Iterator[Answer]:
    """Everything that a graph is asked; it is changed by that."""
    opened: list[og.Graph] = []
    yield _answer("open to read", lambda: opened.append(og.connect(root, read_only=True)))
    if opened:
        yield from _reads(opened[0], "read")
    yield _answer("open to write", lambda: opened.append(og.connect(root)))
    if len(opened) < 2:
        return
    graph = opened[-1]
    yield from _reads(graph, "reread")
    staged = StagedLoad.from_json((root.parent / STAGED).read_text())
    yield _answer("publish bb Person", lambda: graph.publish(staged) is not None)
    for branch in reversed(BRANCHES):
        yield _answer(f"write {branch} Team", _load, graph, branch)
        yield _answer(f"write {branch} Person", _insert, graph, branch)
    for branch in ("bb", "b"):
        yield _answer(f"delete {branch}", graph.delete_branch, branch)
        yield _answer(f"remake {branch}", _remake, graph, branch)


def _reads(graph: og.Graph, how: str) -> Iterator[Answer]:
    for branch in BRANCHES:
        for kind, text in READS.items():
            yield _answer(f"{how} {branch} {kind}", _query, graph, text, branch)
        for name in ("notes", "v"):
            yield _answer(f"{how} {branch} {name}", _select, graph, name, branch)
        yield _answer(f"{how} {branch} history", _history, graph, branch)


def _load(graph: og.Graph, branch: str) -> Any:
    return graph.load([node("Team", slug="new")], mode="append", branch=branch).nodes


def _insert(graph: og.Graph, branch: str) -> bool:
    return bool(graph.mutate(INSERT, params={"name": "new"}, branch=branch).commit)


def _remake(graph: og.Graph, branch: str) -> Any:
    graph.create_branch(branch)
    return _query(graph, READS["Team"], branch)


def _query(graph: og.Graph, text: str, branch: str) -> Any:
    return graph.query(text, branch=branch).to_pylist()


def _select(graph: og.Graph, name: str, branch: str) -> Any:
    return graph.sql(f"select n from main.{name} order by n", branch=branch).to_arrow().to_pylist()


def _history(graph: og.Graph, branch: str) -> int:
    return len(graph.commits(branch))


def _answer(question: str, work: Callable[..., Any], *arguments: Any) -> Answer:
    try:
        return Answer(question, json.loads(json.dumps(work(*arguments))))
    except OmnigraphError as error:
        return Answer(question, error=f"{error.kind}: {error.message} | {error.hint}")
    except BaseException as error:
        return Answer(question, raw=f"{type(error).__name__}: {error}"[:500])


# Damages -------------------------------------------------------------------------------------------------------------


def _flip(path: Path, random: Random) -> None:
    data = bytearray(path.read_bytes() or b"\0")
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def _other(path: Path, random: Random) -> None:
    """The content of another file of its kind, or of any."""
    root = next(parent for parent in path.parents if (parent / "_schema.pg").exists() or parent.name == "g")
    others = [other for other in root.rglob("*") if other.is_file() and other.read_bytes() != path.read_bytes()]
    alike = [other for other in others if other.suffix == path.suffix]
    path.write_bytes(random.choice(sorted(alike or others)).read_bytes())


def _directory(path: Path, _: Random) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path, Random], object]] = {
    "removed": lambda path, _: path.unlink(),
    "emptied": lambda path, _: path.write_bytes(b""),
    "halved": lambda path, _: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": _flip,
    "zeroed": lambda path, _: path.write_bytes(b"\0" * path.stat().st_size),
    "swapped": _other,
    "directory": _directory,
}


@dataclass(frozen=True)
class Owner:
    """Whose a file is: which branch and which dataset it belongs to."""

    branch: str | None
    dataset: str


def owner_of_file(name: str) -> Owner:
    """Whose file this is, told by its name."""
    match = re.match(r"(?P<dataset>.+?)(/tree/|/_refs/branches/|/_branches/)(?P<branch>\w+)", name)
    if match is not None:
        return Owner(None if match["branch"] == "main" else match["branch"], match["dataset"])
    parts = name.split("/")
    return Owner(None, "/".join(parts[:2]) if len(parts) > 1 else name)


def files_of(root: Path) -> list[str]:
    """The files of a graph that can be damaged, by their names below it."""
    paths = (path for path in root.rglob("*") if path.is_file() and "_locks" not in path.parts)
    return sorted(path.relative_to(root).as_posix() for path in paths)


def copy(model: Path, target: Path) -> Path:
    """A copy of the graph, with the staged load beside it."""
    shutil.copytree(model.parent, target)
    return target / model.name
