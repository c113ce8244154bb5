"""A graph in a DuckDB connection: branches as schemas, functions of the graph, and tables of DuckDB beside them.

Run it with `python examples/sql/on_duckdb.py`; it needs the extra `duckdb`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import omnigraph_sql as og

SCHEMA = """
node Port { code: String @key  depth: F64? }
edge Lane: Port -> Port { miles: I32? }
"""
PORTS = {"NLRTM": 24.0, "DEHAM": 15.1, "GBFXT": 16.0}
LANES = [("NLRTM", "GBFXT", 121), ("NLRTM", "DEHAM", 305), ("DEHAM", "GBFXT", 398)]


def main() -> None:
    with tempfile.TemporaryDirectory() as place, og.init(Path(place) / "harbour", SCHEMA) as graph:
        records = [{"type": "Port", "data": {"code": code, "depth": depth}} for code, depth in PORTS.items()]
        records += [{"edge": "Lane", "from": a, "to": b, "data": {"miles": m}} for a, b, m in LANES]
        graph.load([json.dumps(record) for record in records], mode="append")
        graph.create_branch("closed")
        graph.mutate('query q() { delete Port where code = "GBFXT" }', branch="closed")

        with graph.duckdb() as connection:
            connection.execute("create temp table calls as from (values ('DEHAM', 3), ('GBFXT', 2)) v(port, ships)")
            print("Calls, with depths:")
            for row in connection.sql(
                "select port, ships, depth from calls join Port on code = port order by port"
            ).fetchall():
                print("  ", *row)
            print("Gone on the branch:")
            for (code,) in connection.sql("select code from Port anti join closed.Port using (id)").fetchall():
                print("  ", code)
            print("Reached from Rotterdam:")
            for start, end in connection.sql("from expand('Lane', 'NLRTM')").fetchall():
                print("  ", start, "->", end)


if __name__ == "__main__":
    main()
