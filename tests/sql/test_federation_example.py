"""The federation example runs, and prints what it promises."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "federation" / "demo.py"


def test_the_example_runs() -> None:
    run = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=120)

    assert "Felixstowe  121 miles, 1050.25 a day, 4 waiting, ask Edith" in run.stdout
    assert 'SELECT "port", "name" FROM "main"."pilots"' in run.stdout
    assert [line.split()[1] for line in run.stdout.splitlines()[:4]] == ["parquet", "duckdb", "csv", "arrow"]
