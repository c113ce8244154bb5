"""Files that arrive one after another become commits of a graph, each once, also when a batch is repeated.

Run it with `python examples/spark/streaming.py`; it needs the extra `spark` and Java 17 or newer.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import omnigraph_sql as og

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Ship { imo: String @key
  position: String }
"""


def follow(spark: SparkSession, graph: og.Graph, place: Path) -> None:
    """Load what has arrived since the last time."""
    arrivals = spark.readStream.schema("imo string, position string").json(str(place / "arrivals"))
    writer = arrivals.writeStream.format("omnigraph").option("type", "Ship").option("load_mode", "merge")
    query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start(graph.uri)
    query.awaitTermination()
    rows = graph.query("query q() { match { $s: Ship } return { $s.imo, $s.position } order { $s.imo } }").to_pylist()
    seen = ", ".join(f"{row['s.imo']} at {row['s.position']}" for row in rows)
    print(f"{len(graph.commits()) - 1} commits: {seen}")


def arrive(place: Path, name: str, **positions: str) -> None:
    """A file with new positions."""
    (place / "arrivals").mkdir(exist_ok=True)
    lines = [json.dumps({"imo": imo, "position": position}) for imo, position in positions.items()]
    (place / "arrivals" / name).write_text("\n".join(lines))


def main() -> None:
    """Three runs: two with something new, and one that repeats the last batch."""
    spark = og.spark.session("local[2]")
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        graph = og.init(place / "fleet", SCHEMA)
        arrive(place, "monday.json", IMO1="Rotterdam", IMO2="Hamburg")
        follow(spark, graph, place)
        arrive(place, "tuesday.json", IMO1="Singapore")
        follow(spark, graph, place)

        shutil.rmtree(place / "checkpoint" / "commits")  # as if Spark had been killed before it noted the batches
        follow(spark, graph, place)
    spark.stop()


if __name__ == "__main__":
    main()
