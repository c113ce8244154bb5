"""The quickstart example does what it says, and its files are models of their kind."""

import subprocess
import sys
from pathlib import Path

from tests.cli.ogsql import TIMEOUT, environment, ogsql

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
SCHEMAS = ["harbour.pg", "harbour_v2.pg"]


def test_the_queries_have_neither_errors_nor_warnings() -> None:
    result = ogsql("lint", "harbour.pg", "harbour.gq", cwd=QUICKSTART)

    assert result.status == 0
    assert result.out.splitlines()[-1] == "11 queries checked in harbour.gq: 0 errors, 0 warnings, 1 info"


def test_the_files_are_formatted() -> None:
    result = ogsql("fmt", "--check", *SCHEMAS, "harbour.gq", cwd=QUICKSTART)

    assert (result.status, result.out) == (0, "")


def test_the_change_of_schema_is_supported_and_shows_every_kind_of_step() -> None:
    result = ogsql("schema", "plan", "--json", "--from", *SCHEMAS, cwd=QUICKSTART)

    assert result.status == 0
    assert {step["kind"] for step in result.document["steps"]} == {
        "add_constraint",
        "add_property",
        "add_type",
        "drop_property",
        "extend_enum",
        "rename_property",
        "rename_type",
        "update_property_metadata",
    }


def test_the_demonstration_runs(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, QUICKSTART / "demo.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )

    assert (result.returncode, result.stderr) == (0, "")
    for fragment in (
        "11 queries, 0 errors, 0 warnings",
        " --> big_ports.gq:5:12",
        "did you mean `tonnes`?",
        "1. scan Ship as s",
        "rename node Company to Operator",
        "    Port      10\n",
        "retire_ship   nodes: 1, edges: 3",
        "ada    first load",
        '    - HomedAt from: "9700059", to: "DEDUI"\n',
        '    + Call from: "9700011", to: "DEHAM"',
        "reachable_like on main: 3 rows",
        "reachable_like on survey: 3 rows",
        "expand: within 1 to 3 hops along Lane (out)",
    ):
        assert fragment in result.stdout
    assert not list(tmp_path.iterdir())
