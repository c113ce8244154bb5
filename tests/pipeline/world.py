"""A directory with a graph, raw files and a pipeline."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import omnigraph_sql as og
from omnigraph_sql.graph import Graph
from omnigraph_sql.pipeline import RunReport, run_pipeline

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String?
  tags: [String]?
  @range(age, 0..150)
}
node Place { code: String @key }
edge Knows: Person -> Person { since: Date? }
edge Lives: Person -> Place
"""
PEOPLE: dict[str, Any] = {"type": "Person", "from": "people", "columns": {"name": "name", "age": "age"}}
KNOWS: dict[str, Any] = {"type": "Knows", "from": "knows", "src": "a", "dst": "b", "columns": {"since": "since"}}


@dataclass(frozen=True)
class World:
    """Where a test works."""

    path: Path

    @property
    def graph(self) -> Graph:
        return og.connect(self.path / "g")

    def write(self, name: str, content: str | bytes) -> Path:
        """A raw file."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def lines(self, name: str, rows: Iterable[Any]) -> Path:
        """A file of JSON lines."""
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def pipeline(self, **given: Any) -> Path:
        """A pipeline of people, with other things in it."""
        document: dict[str, Any] = {
            "graph": "g",
            "sources": {"people": {"format": "jsonl", "path": "people.jsonl"}},
            "nodes": [dict(PEOPLE)],
        }
        document |= given
        kept = {name: value for name, value in document.items() if value is not None}
        return self.write("pipeline.yaml", yaml.safe_dump(kept, sort_keys=False))

    def run(self, **given: Any) -> RunReport:
        """Run the pipeline of this directory on the local engine."""
        return run_pipeline(self.path / "pipeline.yaml", engine="local", **given)

    def people(self, branch: str = "main") -> dict[str, int | None]:
        """Names and ages."""
        with self.graph as graph:
            rows = graph.sql('select name, age from "Person" order by name', branch=branch).to_pylist()
        return {row["name"]: row["age"] for row in rows}

    def rejects(self, name: str = "rejects.jsonl") -> list[dict[str, Any]]:
        """What was rejected."""
        return [json.loads(line) for line in (self.path / name).read_text().splitlines()]

    def leftovers(self) -> list[str]:
        """Files that only a load leaves which was staged and not published."""
        found = []
        referenced = set(self._referenced())
        for place, _, files in os.walk(self.path / "g"):
            where = Path(place).relative_to(self.path / "g")
            for file in files:
                path = str(where / file)
                is_table = where.parts[:1] in (("nodes",), ("edges",))
                is_view = file.startswith("d") and file.endswith(".manifest")
                is_orphan = is_table and "data" in where.parts and path not in referenced
                if path.startswith("_staged") or is_view or is_orphan:
                    found.append(path)
        return sorted(found)

    def _referenced(self) -> Iterable[str]:
        import lance

        root = self.path / "g"
        for table in sorted([*root.glob("nodes/*"), *root.glob("edges/*")]):
            for uri in (table, *sorted(table.glob("tree/*"))):
                for version in lance.dataset(str(uri)).versions():
                    for fragment in lance.dataset(str(uri), version=version["version"]).get_fragments():
                        for file in fragment.metadata.files:
                            yield str((uri / "data" / file.path).relative_to(root))
                            yield str((table / "data" / file.path).relative_to(root))
