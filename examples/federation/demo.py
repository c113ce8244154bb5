"""One statement over a graph, a CSV file, Parquet files, a table in memory and a DuckDB file.

Run it with `python examples/federation/demo.py`; it needs the extra `duckdb`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph_sql as og

HERE = Path(__file__).parent
SCHEMA = """
node Port { code: String @key  name: String }
edge Lane: Port -> Port { miles: I32 }
"""
PORTS = {"NLRTM": "Rotterdam", "DEHAM": "Hamburg", "GBFXT": "Felixstowe"}
LANES = [("NLRTM", "GBFXT", 121), ("NLRTM", "DEHAM", 305), ("DEHAM", "GBFXT", 390)]
NEXT_STOP = """
SELECT b.name AS port, l.miles, min(t.per_day) AS per_day, max(c.ships) AS waiting, max(p.name) AS pilot
FROM "Port" a
JOIN "Lane" l ON l.src = a.id
JOIN "Port" b ON b.id = l.dst
JOIN foreign.tariffs t ON t.port = b.code
JOIN foreign.wind w ON w.port = b.code
JOIN foreign.calls c ON c.port = b.code
JOIN foreign.pilots p ON p.port = b.code
WHERE a.code = $from AND w.knots < 35
GROUP BY b.name, l.miles
ORDER BY per_day
"""


def make_graph(directory: Path) -> og.Graph:
    graph = og.init(directory / "harbour", SCHEMA)
    records = [{"type": "Port", "data": {"code": code, "name": name}} for code, name in PORTS.items()]
    records += [{"edge": "Lane", "from": a, "to": b, "data": {"miles": miles}} for a, b, miles in LANES]
    graph.load([json.dumps(record) for record in records], mode="append")
    return graph


def make_sources(directory: Path) -> None:
    (directory / "calls").mkdir()
    for number, (port, ships) in enumerate([("GBFXT", 4), ("DEHAM", 1), ("NLRTM", 7)]):
        pq.write_table(pa.table({"port": [port], "ships": [ships]}), directory / "calls" / f"{number}.parquet")
    with duckdb.connect(directory / "pilots.duckdb") as connection:
        connection.execute("CREATE TABLE pilots (port VARCHAR, name VARCHAR)")
        connection.execute("INSERT INTO pilots VALUES ('NLRTM', 'Ada'), ('DEHAM', 'Grace'), ('GBFXT', 'Edith')")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        make_sources(directory)
        graph = make_graph(directory)
        graph.use_project(HERE)  # the CSV file
        graph.register("calls", directory / "calls")
        graph.register("pilots", directory / "pilots.duckdb", table="pilots")
        graph.register("wind", pa.table({"port": ["DEHAM", "GBFXT"], "knots": [31.0, 12.5]}))
        for table in graph.foreign():
            print(f"{table.name:8} {table.kind:8} {', '.join(table.schema.names)}")

        print("\nFrom Rotterdam, the cheapest berth first:")
        for row in graph.sql(NEXT_STOP, {"from": "NLRTM"}).to_pylist():
            berth = f"{row['per_day']} a day, {row['waiting']} waiting"
            print(f"  {row['port']:11} {row['miles']} miles, {berth}, ask {row['pilot']}")

        explained = graph.sql(f"EXPLAIN {NEXT_STOP.replace('$from', repr('NLRTM'))}").to_pylist()
        print("\nWhat the DuckDB file is asked:")
        print(f"  {explained[-1]['plan']}")


if __name__ == "__main__":
    main()
