"""Graphs of any number of types, and the operations that are counted."""

import json
from pathlib import Path
from typing import Any

import omnigraph_sql as og

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique }
node Note { text: String }
node Team { slug: String @key }
edge Knows: Person -> Person { since: I32? }
edge Member: Person -> Team @card(0..2)
"""


def many_types(count: int) -> str:
    return "".join(f"node T{number} {{ name: String @key }}\n" for number in range(count))


def node(kind: str, **data: Any) -> str:
    return json.dumps({"type": kind, "data": data})


def edge(kind: str, source: str, target: str, **data: Any) -> str:
    return json.dumps({"edge": kind, "from": source, "to": target, "data": data})


def seeded(root: Path) -> og.Graph:
    """Some rows in every table."""
    graph = og.init(root, SCHEMA)
    people = [node("Person", name=f"p{number}", age=number) for number in range(20)]
    notes = [node("Note", text=f"n{number}") for number in range(5)]
    edges = [edge("Knows", f"p{number}", f"p{number + 1}", id=f"k{number}") for number in range(19)]
    graph.load([*people, *notes, node("Team", slug="red"), *edges, edge("Member", "p0", "red", id="m0")], mode="append")
    return graph
