"""A graph for tests of merges, with everything that rows may hold, and what they look at past the engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import lance

import omnigraph_sql as og
from tests.crash.world import place_of
from tests.stores import Place

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  nick: String?
  tags: [String]?
  spot: Vector(3)?
  email: String? @unique
  street: String?
  house: I32?
  mood: enum(glad, sad)?
  _row_note: String?
  @unique(street, house)
  @range(age, 0..150)
  @check(nick, "^[^!]*$")
}
node Note { mark: String  text: String?  rank: F64?  due: Date?  seen: DateTime? }
node Team { slug: String @key }
node Photo { name: String @key  image: Blob?  spot: Vector(2)? }
edge Knows: Person -> Person { mark: String  since: I32?  words: [String]? }
edge Member: Person -> Team @card(0..2) { mark: String }
edge Lead: Team -> Person @card(1..2) { mark: String }
edge Likes: Person -> Person { mark: String  @unique(src, dst) }
edge Cites: Note -> Note { mark: String  why: String? }
"""
KEYS = {"Person": "name", "Team": "slug", "Photo": "name"}
Id = tuple[str, str]
Rows = dict[Id, dict[str, Any]]
"""Entities by type and id."""
EDGES = ("Knows", "Member", "Lead", "Likes", "Cites")


def node(kind: str, row_id: str, **data: Any) -> str:
    """A record of a node; the id of one with a key is the key."""
    key = {"id": row_id, "mark": row_id} if kind == "Note" else {KEYS[kind]: row_id}
    return json.dumps({"type": kind, "data": key | data})


def edge(kind: str, row_id: str, start: str, end: str, **data: Any) -> str:
    return json.dumps({"edge": kind, "from": start, "to": end, "data": {"id": row_id, "mark": row_id} | data})


BASE = [
    node("Person", "änn", age=30, nick="", tags=["a,b", "c"], spot=[0.5, -1.0, 2.0], _row_note="x"),
    node("Person", "bob", age=40, nick=None, tags=[], mood="glad"),
    node("Person", "сид", age=None, tags=["ü", "日本"], spot=[1.0, 2.0, 3.0]),
    node("Person", "dee", age=20),
    node("Person", "eve", email="eve@x"),
    node("Note", "n1", text="first"),
    node("Note", "n2", text="a\tb\nc", rank=0.5, due="2024-02-29", seen="2024-02-29T10:00:00Z"),
    node("Note", "n3", text=""),
    node("Team", "red"),
    node("Photo", "p1", image="base64:AAEC", spot=[1.0, 0.0]),
    edge("Knows", "k1", "änn", "bob", since=1, words=["x", ""]),
    edge("Knows", "k2", "bob", "сид", since=2),
    edge("Knows", "k3", "dee", "bob", since=3),
    edge("Lead", "l1", "red", "änn"),
    edge("Cites", "c1", "n1", "n2", why="ö"),
]


def founded(root: Place) -> og.Graph:
    graph = og.init(root, SCHEMA, actor="ada")
    graph.load(BASE, mode="append")
    return graph


def shown(graph: og.Graph, branch: str = "main", **at: Any) -> Rows:
    """Every entity of a branch with its values; null is left out."""
    rows: Rows = {}
    for line in graph.export(branch, **at):
        record = json.loads(line)
        ends = {end: record[end] for end in ("from", "to") if end in record}
        rows[record.get("type") or record["edge"], record["data"]["id"]] = ends | record["data"]
    return rows


def put(graph: og.Graph, branch: str, *records: str) -> None:
    graph.load(list(records), mode="merge", branch=branch)


def remove(graph: og.Graph, branch: str, kind: str, row_id: str) -> None:
    """Delete a node with its edges, or an edge."""
    text = f"query q($id: String) {{ delete {kind} where {KEYS.get(kind, 'mark')} = $id }}"
    graph.mutate(text, params={"id": row_id}, branch=branch)


def fingerprint(root: Place) -> Mapping[str, str]:
    """Every file of a graph with a digest of its content."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path): hashlib.blake2b(path.read_bytes()).hexdigest() for path in files}


def versions(graph: og.Graph, key: str, branch: str = "main") -> dict[str, tuple[int, int, int]]:
    """The row id of every row of a type and the versions that made and changed it, by id, past the engine."""
    entry = graph.snapshot(branch=branch).entry(key)
    place = place_of(graph) / entry.path
    place = place if entry.branch is None else place / "tree" / entry.branch
    columns = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    table = lance.dataset(str(place), version=entry.version).scanner(columns=columns).to_table()
    return {row["id"]: tuple(row[name] for name in columns[1:]) for row in table.to_pylist()}
