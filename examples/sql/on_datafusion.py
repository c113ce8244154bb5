"""A graph in a DataFusion session: branches side by side, a walk and a search in SQL, and data that is not in the graph.

Run it with `python examples/sql/on_datafusion.py`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext

import omnigraph_sql as og
from omnigraph_sql.result import Result

SCHEMA = """
node Port {
  code: String @key
  title: String
  depth: F64?
}
edge Lane: Port -> Port { miles: I32? }
"""
PORTS = [("NLRTM", "Rotterdam, deep water", 24.0), ("DEHAM", "Hamburg, tidal water", 15.1), ("GBFXT", "Felixstowe", 16.0)]
LANES = [("NLRTM", "GBFXT", 121), ("NLRTM", "DEHAM", 305), ("DEHAM", "GBFXT", 398)]


def show(title: str, result: Result) -> None:
    """Print rows under a title."""
    print(f"\n{title}")
    for row in result.to_pylist():
        print("  " + "  ".join(f"{name}={value}" for name, value in row.items()))


def main() -> None:
    with tempfile.TemporaryDirectory() as place, og.init(Path(place) / "harbour", SCHEMA) as graph:
        records = [{"type": "Port", "data": {"code": c, "title": t, "depth": d}} for c, t, d in PORTS]
        records += [{"edge": "Lane", "from": a, "to": b, "data": {"miles": m}} for a, b, m in LANES]
        graph.load([json.dumps(record) for record in records], mode="append")
        graph.create_branch("dredged")
        graph.mutate('query q() { update Port set { depth: 17.3 } where code = "DEHAM" }', branch="dredged")

        show("Two hops from Rotterdam", graph.sql("select id from expand('Lane', 'NLRTM', 1, 2) order by id"))
        show("About water", graph.sql("select id from bm25('Port', 'title', 'water', 5) order by id"))
        show(
            "What the branch changes",
            graph.sql(
                "select m.code, m.depth as before, d.depth as after from main.Port m join dredged.Port d on d.id = m.id "
                "where d.depth is distinct from m.depth"
            ),
        )

        session = SessionContext()
        session.from_arrow(pa.table({"port": ["DEHAM", "NLRTM"], "ships": [3, 5]}), "calls")
        graph.attach(session, alias="harbour")
        frame = session.sql("select p.title, ships from calls join harbour.main.Port p on p.id = port order by ships")
        print("\nWith a table of your own")
        for row in frame.to_pylist():
            print(f"  {row['title']}: {row['ships']} ships")


if __name__ == "__main__":
    main()
