"""The scripts in `examples` run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOWN = {
    "sql/on_datafusion.py": ["id=DEHAM", "code=DEHAM  before=15.1  after=17.3", "Rotterdam, deep water: 5 ships"],
    "federation/demo.py": ["Hamburg"],
    "pipeline/demo.py": [
        "node:Ship: 4 rows, 1 rejected, 3 published",
        "rejected by the rule json: raw/ships.jsonl, 6",
        "rejected by the rule type: raw/calls/2026-02.jsonl, 2",
        "EVER GIVEN (PA) at Rotterdam: 35.5",
        "replayed=True",
    ],
    "sql/on_duckdb.py": ["DEHAM 3 15.1", "NLRTM -> GBFXT"],
}


@pytest.mark.parametrize("script", SHOWN)
def test_an_example_shows_what_it_should(script: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for text in SHOWN[script]:
        assert text in done.stdout
