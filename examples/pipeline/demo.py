"""Dirty raw files become a graph: mapped, checked, tested, and published in one commit.

Run it with `python examples/pipeline/demo.py`; it needs the extra `duckdb`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import omnigraph_sql as og
from omnigraph_sql.pipeline import run_pipeline

HERE = Path(__file__).parent


def main() -> None:
    """Run the pipeline of this directory in a copy of it."""
    with tempfile.TemporaryDirectory() as directory:
        place = shutil.copytree(HERE, Path(directory) / "pipeline")
        with og.init(place / "harbour", place / "harbour.pg"):
            pass

        report = run_pipeline(place / "pipeline.yaml", engine="local")
        for table in report.tables:
            print(f"{table.table_key}: {table.rows} rows, {table.rejected} rejected, {table.published} published")
        print(f"tests passed: {', '.join(report.tests)}")

        for line in (place / "rejects.jsonl").read_text("utf-8").splitlines():
            reject = json.loads(line)
            print(f"rejected by the rule {reject['rule']}: {reject['source']}, {reject['line']}")

        with og.connect(place / "harbour") as graph:
            ships = 'select s.name, s.flag, p.name as port, c.hours from "Ship" s join "CalledAt" c on c.src = s.id '
            for row in graph.sql(ships + 'join "Port" p on p.id = c.dst order by c.day').to_pylist():
                print(f"{row['name']} ({row['flag']}) at {row['port']}: {row['hours']}")

        again = run_pipeline(place / "pipeline.yaml", engine="local")
        print(f"the same files again: replayed={again.replayed}")


if __name__ == "__main__":
    main()
