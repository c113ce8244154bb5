"""Pipelines into a graph on S3."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.pipeline import run_pipeline
from tests.stores import S3Place

PIPELINE = """
graph: {graph}
branch: {branch}
base: main
mode: merge
sources:
  people: {{format: jsonl, path: people.jsonl}}
nodes:
  - {{type: Person, from: people, columns: {{name: name, age: age}}}}
tests:
  - {{name: nobody is one, sql: 'select * from "Person" where age = 1'}}
"""
CODE = "import sys; from omnigraph_sql.pipeline import run_pipeline; run_pipeline(sys.argv[1], engine='local')"


@pytest.mark.parametrize("branch", ["main", "draft"])
def test_a_run_that_was_killed_while_it_was_tested_is_repeated_cleanly(root: S3Place, tmp_path: Path, branch: str) -> None:
    place = root / "g"
    graph = og.init(place, "node Person { name: String @key  age: I32? }")
    graph.load(json.dumps({"type": "Person", "data": {"name": "Ann", "age": 1}}), mode="append")
    (tmp_path / "people.jsonl").write_text('{"name": "Ann", "age": 2}\n{"name": "Bob"}\n')
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(graph=place, branch=branch))
    done = subprocess.run(
        [sys.executable, "-c", CODE, tmp_path / "pipeline.yaml"],
        env=os.environ | {"OMNIGRAPH_FAILPOINTS": "pipeline.during_tests=exit", "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=120,
    )
    assert done.returncode == 86
    assert leftovers(place) != []

    report = run_pipeline(tmp_path / "pipeline.yaml", engine="local")

    assert (report.replayed, report.tests) == (False, ("nobody is one",))
    found = og.connect(place).sql('select name, age from "Person" order by name', branch=branch).to_pylist()
    assert found == [{"name": "Ann", "age": 2}, {"name": "Bob", "age": None}]
    assert leftovers(place) == []
    assert run_pipeline(tmp_path / "pipeline.yaml", engine="local").replayed


def leftovers(place: S3Place) -> list[str]:
    """What only staged loads leave."""
    names = [str(each) for each in place.rglob("*")]
    return [name for name in names if "/_staged/" in name or re.search(r"/d\d+\.manifest$", name)]
