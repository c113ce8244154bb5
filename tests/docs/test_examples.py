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
    "spark/notebook.py": [
        "loaded {'Port': 3} and {'Lane': 2}",
        "deep ports: ['Rotterdam']",
        "tolls: [('Hamburg', 120), ('Singapore', 300)]",
        "Hamburg on main: 15.1",
        "Hamburg on survey: 17.3",
    ],
    "spark/streaming.py": [
        "1 commits: IMO1 at Rotterdam, IMO2 at Hamburg",
        "2 commits: IMO1 at Singapore, IMO2 at Hamburg",
    ],
    "sql/on_duckdb.py": ["DEHAM 3 15.1", "NLRTM -> GBFXT"],
}


@pytest.mark.parametrize(
    "script", [pytest.param(name, marks=[pytest.mark.slow] if name.startswith("spark/") else []) for name in SHOWN]
)
def test_an_example_shows_what_it_should(script: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    if not script.startswith("spark/"):  # Java says how it was started
        assert done.stderr == ""
    for text in SHOWN[script]:
        assert text in done.stdout
