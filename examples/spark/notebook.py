"""A graph from DataFrames and back, cell by cell, as in a notebook.

Run it with `python examples/spark/notebook.py`; it needs the extra `spark` and Java 17 or newer.
"""

# %% A graph, and a session of Spark that knows graphs
import tempfile

import omnigraph_sql as og

SCHEMA = """
node Port {
  code: String @key
  name: String
  depth: F64?
}
edge Lane: Port -> Port { miles: I32? }
"""
directory = tempfile.TemporaryDirectory()
graph = og.init(f"{directory.name}/harbour", SCHEMA)
spark = og.spark.session("local[2]")

# %% Raw data, as it often is: names in odd spellings, one lane twice
ports = spark.createDataFrame(
    [("nlrtm", " Rotterdam", 24.0), ("deham", "Hamburg ", 15.1), ("sgsin", "Singapore", None)],
    "code string, name string, depth double",
).selectExpr("upper(code) as code", "trim(name) as name", "depth")
lanes = spark.createDataFrame(
    [("NLRTM", "DEHAM", 270), ("NLRTM", "DEHAM", 270), ("NLRTM", "SGSIN", 8288)], "start string, end string, miles int"
).distinct()

# %% Two jobs, one commit
with og.spark.GraphLoad(spark, graph.uri, message="ports and lanes") as load:
    load.nodes("Port", ports)
    load.edges("Lane", lanes, src="start", dst="end")
print(f"loaded {dict(load.result.nodes)} and {dict(load.result.edges)}")

# %% Types are DataFrames; a condition is answered by the table
deep = spark.read.format("omnigraph").options(type="Port", filter="depth > 20").load(graph.uri)
print(f"deep ports: {[row['name'] for row in deep.collect()]}")

# %% So are queries; joins with other DataFrames are Spark's
reach = (
    "query reach($from: String) { match { $p: Port { code: $from } $p lane{1,3} $q } return { $q.code as code, $q.name } }"
)
reachable = spark.read.format("omnigraph").option("query", reach).option("params", '{"from": "NLRTM"}').load(graph.uri)
tolls = spark.createDataFrame([("DEHAM", 120), ("SGSIN", 300)], "code string, toll int")
print(f"tolls: {sorted((row['q.name'], row['toll']) for row in reachable.join(tolls, 'code').collect())}")

# %% Changes go to a branch first
graph.create_branch("survey")
with og.spark.GraphLoad(spark, graph.uri, branch="survey", mode="merge") as load:
    load.nodes("Port", spark.createDataFrame([("DEHAM", "Hamburg", 17.3)], "code string, name string, depth double"))
for branch in ("main", "survey"):
    rows = spark.read.format("omnigraph").options(type="Port", branch=branch).load(graph.uri).where("code = 'DEHAM'")
    print(f"Hamburg on {branch}: {rows.collect()[0]['depth']}")

# %% The end
spark.stop()
directory.cleanup()
