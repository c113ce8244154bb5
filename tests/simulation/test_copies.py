"""Law: a copy of a graph with any history, and with any crashes in it, is the graph."""

import warnings
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.simulation.engine import observe
from tests.simulation.walk import walk
from tests.stores import remove
from tests.tiers import amount


def everything(graph: og.Graph) -> dict[str, Any]:
    """What the graph shows on every branch and under every tag, and what it showed at every commit."""
    shown: dict[str, Any] = {}
    for branch in graph.branches():
        shown[branch] = observe(graph, branch)
        shown[f"{branch} history"] = [commit.to_dict() for commit in graph.commits(branch)]
        for commit in graph.commits(branch):
            shown[commit.graph_commit_id] = past(graph, branch, commit.graph_commit_id)
    for tag in graph.tags():
        shown[f"tag {tag.name}"] = (tag.to_dict(), past(graph, "main", tag.name))
    return shown


def past(graph: og.Graph, branch: str, commit: str) -> Any:
    """What was shown at a commit; the kind of the error where that is gone."""
    try:
        return observe(graph, branch, commit=commit)
    except errors.OmnigraphError as error:
        return error.kind


@pytest.mark.parametrize("seed", range(amount(check=2, test=4, all=100)))
def test_a_copy_is_its_original(tmp_path: Path, seed: int) -> None:
    walk(tmp_path / "g", 70_000 + seed)
    graph = og.connect(tmp_path / "g")
    expected = everything(graph)
    branch = graph.branches()[seed % len(graph.branches())]
    records = list(graph.export(branch))

    graph.copy(tmp_path / "whole", whole=True)
    graph.copy(tmp_path / "one", branch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.OmittedRelationsWarning)
        restored = og.init(tmp_path / "bundle", bundle=graph.export(branch, with_schema=True))
    assert list(restored.export()) == records
    graph.close()
    remove(tmp_path / "g")

    assert everything(og.connect(tmp_path / "whole", read_only=True)) == expected
    assert everything(og.connect(tmp_path / "whole")) == expected
    one = og.connect(tmp_path / "one")
    assert (list(one.export()), observe(one, "main")) == (records, expected[branch])
    one.load(records, mode="overwrite")
    assert list(one.export()) == records
