"""What calls of the public surface need: a small graph that is open, and files beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph_sql as og

SCHEMA = """
node Port {
  code: String @key
  title: String? @index
  depth: F64?
  vec: Vector(2)? @embed(title)
}
edge Lane: Port -> Port { miles: I32? }
"""
RECORDS = [
    {"type": "Port", "data": {"code": "NLRTM", "title": "Rotterdam", "depth": 24.0, "vec": [1.0, 0.0]}},
    {"type": "Port", "data": {"code": "DEHAM", "title": "Hamburg", "vec": [0.0, 1.0]}},
    {"edge": "Lane", "from": "NLRTM", "to": "DEHAM", "data": {"miles": 305}},
]
READ = "query ports() { match { $p: Port } return { $p.code } }"
WRITE = 'query dredge() { update Port set { depth: 20.0 } where code = "NLRTM" }'
PIPELINE = """
graph: {graph}
mode: merge
sources:
  ports: {{format: csv, path: ports.csv}}
nodes:
  - {{type: Port, from: ports, columns: [code, title]}}
"""


def make_files(root: Path) -> None:
    """A graph and the files that commands and calls are given; `work` is where they run, some levels further down."""
    work = root / "work" / "a" / "b"
    work.mkdir(parents=True)
    with og.init(root / "model", SCHEMA) as graph:
        graph.load([json.dumps(each) for each in RECORDS], mode="append")
        graph.tables().create_table("main", "Notes", pa.table({"k": [1], "v": ["x"]}))
    shutil.copytree(root / "model", root / "graph")
    texts = {
        "ports.pg": SCHEMA,
        "ports.gq": READ,
        "write.gq": WRITE,
        "ports.csv": "code,title\nGBFXT,Felixstowe\n",
        "ports.jsonl": json.dumps({"type": "Port", "data": {"code": "GBFXT", "title": "Felixstowe"}}),
        "params.json": "{}",
        "statement.sql": "select 1 as x",
        "pipeline.yaml": PIPELINE.format(graph=root / "graph"),
        "omnigraph.yaml": "queries: [ports.gq]\n",
    }
    for name, text in texts.items():
        (work / name).write_text(text)


class World:
    """An open graph and what calls are made with. A graph that a call has broken is replaced."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work" / "a" / "b"
        self.graph = og.connect(root / "graph")
        self.numbers = iter(range(1_000_000_000))
        self._staged: Any = None

    @property
    def uri(self) -> Path:
        return self.root / "graph"

    def name(self) -> str:
        """A name that is new."""
        return f"n{next(self.numbers)}"

    def table(self) -> pa.Table:
        return pa.table({"k": [1], "v": ["y"]})

    def staged(self) -> Any:
        return self.graph.stage(self.record(), mode="merge")

    def record(self) -> list[str]:
        return [json.dumps({"type": "Port", "data": {"code": "BEANR", "title": "Antwerp", "vec": [1.0, 1.0]}})]

    def check(self) -> str | None:
        """What is wrong with the graph when it is opened anew, if anything is."""
        try:
            with og.connect(self.uri) as graph:
                graph.sql('select count(*) from "Port"').to_pylist()
                assert graph.branches()
                graph.load(self.record(), mode="merge")
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None

    def replace(self) -> None:
        """Begin again with a graph that is whole."""
        self.graph.close()
        shutil.rmtree(self.uri)
        shutil.copytree(self.root / "model", self.uri)
        self.graph = og.connect(self.uri)
