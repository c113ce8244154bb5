"""The speed of compiling schemas and queries.

The peers do the closest equivalent in their language: sqlglot parses and qualifies equivalent SQL against a schema (pure
Python, as our compiler), DataFusion parses, resolves and optimises it (native code).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import datafusion
import pyarrow as pa
import sqlglot
from sqlglot.optimizer.qualify import qualify

from bench.measure import Row, measure
from omnigraph_compiler import compile_queries, compile_query, compile_schema, format_queries

SCHEMA = """
interface Named { title: String @index }
node Port implements Named {
  code: String @key
  depth: F64?
  opened: Date?
  kind: enum(river, sea)
  @range(depth, 0..200)
}
node Ship { name: String  crew: I32?  home: String? }
edge Lane: Port -> Port { nm: I32? }
edge HomedAt: Ship -> Port @card(0..1)
"""

QUERY = """
query busy_ports($kind: String, $min_depth: F64?, $since: Date)
  @description("Deep ports with many neighbours, busiest first")
{
  match {
    $p: Port { kind: "sea" }
    $p lane $q
    $s homedAt $p
    $p.depth > $min_depth
    $q.opened >= $since
    $q.title contains $kind
    not {
      $q lane $r
      $r.depth < 3.5
    }
  }
  return {
    $p.code as code,
    $p.title as title,
    count($q) as neighbours,
    max($s.crew) as crew,
  }
  order { neighbours desc, code asc }
  limit 20
}
"""

SQL = """
SELECT p.code AS code, p.title AS title, count(q.id) AS neighbours, max(s.crew) AS crew
FROM port AS p
JOIN lane AS l ON l.src = p.id
JOIN port AS q ON q.id = l.dst
JOIN homed_at AS h ON h.dst = p.id
JOIN ship AS s ON s.id = h.src
WHERE p.kind = 'sea' AND p.depth > 3.0 AND q.opened >= DATE '2024-01-01' AND q.title LIKE '%x%'
  AND NOT EXISTS (
    SELECT 1 FROM lane AS l2 JOIN port AS r ON r.id = l2.dst WHERE l2.src = q.id AND r.depth < 3.5
  )
GROUP BY p.code, p.title
ORDER BY neighbours DESC, code ASC
LIMIT 20
"""

COLUMNS: dict[str, object] = {
    "port": {"id": "text", "code": "text", "title": "text", "depth": "double", "opened": "date", "kind": "text"},
    "ship": {"id": "text", "name": "text", "crew": "int", "home": "text"},
    "lane": {"id": "text", "src": "text", "dst": "text", "nm": "int"},
    "homed_at": {"id": "text", "src": "text", "dst": "text"},
}
ARROW = {"text": pa.string(), "double": pa.float64(), "date": pa.date32(), "int": pa.int32()}


def query_file(lines: int) -> tuple[str, int]:
    """Return a file of at least so many lines, and its number of queries."""
    count = -(-lines // QUERY.count("\n"))
    return "".join(QUERY.replace("busy_ports", f"busy_ports_{number}") for number in range(count)), count


def large_schema(types: int) -> str:
    nodes = (
        f"node T{n} {{ code: String @key  title: String @index  size: I64?  made: DateTime?  kind: enum(a, b, c) "
        f'@default("a")  v: Vector(64)? @embed(title)  @range(size, 0..1000)  @unique(title, size) }}\n'
        for n in range(types)
    )
    edges = (
        f"edge E{n}: T{n} -> T{(n * 7 + 1) % types} @card(0..5) {{ weight: F64?  @unique(src, dst) }}\n"
        for n in range(types)
    )
    return "".join([*nodes, *edges])


def ddl(types: int) -> str:
    nodes = (
        f"CREATE TABLE t{n} (code TEXT PRIMARY KEY, title TEXT NOT NULL, size BIGINT, made TIMESTAMP, kind TEXT NOT NULL "
        "DEFAULT 'a' CHECK (kind IN ('a', 'b', 'c')), v FLOAT[64], CHECK (size BETWEEN 0 AND 1000), UNIQUE (title, size));\n"
        for n in range(types)
    )
    edges = (
        f"CREATE TABLE e{n} (src TEXT NOT NULL REFERENCES t{n} (code), dst TEXT NOT NULL REFERENCES t{(n * 7 + 1) % types} "
        "(code), weight DOUBLE, UNIQUE (src, dst));\n"
        for n in range(types)
    )
    return "".join([*nodes, *edges])


def _sqlglot(sql: str) -> Callable[[], object]:
    return lambda: [qualify(statement, schema=COLUMNS) for statement in sqlglot.parse(sql, read="duckdb") if statement]


def _datafusion(count: int) -> Callable[[], object]:
    context = datafusion.SessionContext()
    for name, columns in COLUMNS.items():
        assert isinstance(columns, dict)
        schema = pa.schema([(column, ARROW[type_]) for column, type_ in columns.items()])
        context.register_record_batches(name, [[pa.RecordBatch.from_pylist([], schema=schema)]])
    return lambda: [context.sql(SQL).optimized_logical_plan() for _ in range(count)]


def _process(code: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def run() -> list[Row]:
    catalog = compile_schema(SCHEMA)
    text, count = query_file(300)
    statements = ";".join([SQL] * count)
    schema, tables = large_schema(100), ddl(100)
    cold = f"from omnigraph_compiler import *; compile_query(compile_schema({SCHEMA!r}), {QUERY!r})"
    imports = "import sqlglot; from sqlglot.optimizer.qualify import qualify"
    cold_peer = f"{imports}; qualify(sqlglot.parse_one({SQL!r}), schema={COLUMNS!r})"
    return [
        Row(
            "one typical query, warm",
            measure(lambda: compile_query(catalog, QUERY), repeat=40),
            {"sqlglot": measure(_sqlglot(SQL), repeat=40), "datafusion": measure(_datafusion(1), repeat=40)},
        ),
        Row(
            f"a file of {text.count(chr(10))} lines ({count} queries), warm",
            measure(lambda: compile_queries(catalog, text)),
            {"sqlglot": measure(_sqlglot(statements)), "datafusion": measure(_datafusion(count))},
        ),
        Row(
            "a schema of 200 types, warm",
            measure(lambda: compile_schema(schema)),
            {"sqlglot": measure(lambda: sqlglot.parse(tables, read="duckdb"))},
        ),
        Row(
            "formatting the file",
            measure(lambda: format_queries(text)),
            {"sqlglot": measure(lambda: sqlglot.transpile(statements, pretty=True))},
        ),
        Row(
            "a new process: import, schema, one query",
            measure(_process(cold), repeat=7, warm_up=1),
            {"sqlglot": measure(_process(cold_peer), repeat=7, warm_up=1)},
        ),
    ]
