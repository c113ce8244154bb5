"""The manifest of a graph, looked into past the engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import quote

import lance

from tests.stores import Place

P = TypeVar("P", bound=Place)


def manifest_place(root: P) -> P:
    """The dataset that is the manifest."""
    return cast(P, root / str(json.loads((root / "__schema_state.json").read_text())["manifest"]))


def log_place(root: P, name: str) -> P:
    """The dataset that is a log."""
    manifest = json.loads((root / "__schema_state.json").read_text()).get("manifest", "__manifest")
    place = root / name
    return cast(P, place if manifest == "__manifest" else place / str(manifest).rpartition("/")[2])


def record_place(root: P, branch: str) -> P:
    """The record of a branch."""
    return cast(P, manifest_place(root) / "_branches" / f"{quote(branch, safe='')}.json")


def lineage_of(root: Place, branch: str) -> str:
    """The lineage of the manifest that a branch is."""
    return str(json.loads(record_place(root, branch).read_text())["lineage"])


def lineage_place(root: P, branch: str) -> P:
    """The dataset that is a branch of the manifest."""
    place = manifest_place(root)
    return place if branch == "main" else cast(P, place / "tree" / lineage_of(root, branch))


def open_manifest(root: Place, branch: str = "main") -> lance.LanceDataset:
    """The newest version of the manifest on a branch."""
    return lance.dataset(str(lineage_place(root, branch)))


def reserve_branch(root: Place, branch: str) -> None:
    """Make a branch exist that the engine does not let anybody create."""
    record = {"name": branch, "lineage": branch, "from": "main", "manifest_version": 1, "created_at": 0.0}
    place = record_place(root, branch)
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(record))


def without_identity(root: Path) -> None:
    """Make a graph without branches what an early release made: its manifest and logs in the place of all, and no id."""
    state = json.loads((root / "__schema_state.json").read_text())
    place = root / state.pop("manifest")
    del state["graph_id"]
    logs = root.glob("_graph_commit*.lance/*")
    for dataset in (place, *logs):
        dataset.rename(root / "aside")
        dataset.parent.rmdir()
        (root / "aside").rename(dataset.parent)
    (root / "__schema_state.json").write_text(json.dumps(state))
