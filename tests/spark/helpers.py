"""What tests of Spark look at: the files that a graph refers to, and those that nobody refers to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance

import omnigraph_sql as og


def persons(graph: og.Graph, **where: Any) -> list[dict[str, Any]]:
    text = "query q() { match { $p: Person } return { $p.key, $p.name, $p.age, $p.mail } order { $p.key } }"
    return graph.query(text, **where).to_pylist()


def keys(graph: og.Graph, **where: Any) -> list[str]:
    return [row["p.key"] for row in persons(graph, **where)]


def knows(graph: og.Graph, **where: Any) -> list[tuple[str, str]]:
    text = "query q() { match { $p: Person $p knows $q } return { $p.key, $q.key } order { $p.key, $q.key } }"
    return [(row["p.key"], row["q.key"]) for row in graph.query(text, **where).to_pylist()]


def heads(graph: og.Graph) -> dict[str, int]:
    """The newest version of every table, published or not."""
    snapshot = graph.snapshot()
    return {key: lance.dataset(f"{graph.uri}/{entry.path}").latest_version for key, entry in snapshot.entries.items()}


def pins(graph: og.Graph) -> dict[str, int]:
    """The versions that the graph shows."""
    return {key: entry.version for key, entry in graph.snapshot().entries.items()}


def orphans(graph: og.Graph) -> list[str]:
    """Data files of tables that no version refers to, and what is left of staged loads."""
    root = Path(graph.uri)
    staged = [path for path in (root / "_staged").rglob("*") if path.is_file()]
    # Marks of loads that were given up stay for a day.
    found = [str(path.relative_to(root)) for path in staged if path.name != "aborted"]
    for entry in graph.snapshot().entries.values():
        dataset = lance.dataset(str(root / entry.path))
        used = set()
        for version in dataset.versions():
            at = dataset.checkout_version(version["version"])
            used |= {file.path for fragment in at.get_fragments() for file in fragment.metadata.files}
        data = root / entry.path / "data"
        found += [str(path.relative_to(root)) for path in data.glob("*") if path.name not in used]
    return found
