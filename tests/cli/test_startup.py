"""What `ogsql` imports before it has something to do. Times are not measured here: they depend on the machine."""

import subprocess
import sys

import pytest

from tests.cli.ogsql import OGSQL, TIMEOUT, environment

LATER = {
    "rich",
    "lark",
    "omnigraph_compiler",
    "omnigraph_udfs",
    "lance",
    "pyarrow",
    "numpy",
    "datafusion",
    "duckdb",
    "urllib3",
    "prompt_toolkit",
}


def imported_by(*arguments: str) -> set[str]:
    """The modules the executable loads, as the interpreter itself reports them."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", OGSQL, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    rows = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    return {row.rpartition("|")[2].strip() for row in rows}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["version"],
        ["lint", "--help"],
        ["fmt", "--help"],
        ["schema", "plan", "--help"],
        ["compile", "--help"],
        ["load", "--help"],
        ["embed", "--help"],
        ["commit", "list", "--help"],
        ["sql", "--help"],
        ["shell", "--help"],
        ["completion", "fish"],
        ["lint"],
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported_before_it_is_needed(arguments: list[str]) -> None:
    modules = imported_by(*arguments)

    assert "omnigraph_sql.cli.app" in modules
    assert {name.partition(".")[0] for name in modules} & LATER == set()


def test_the_commands_of_the_compiler_import_no_engine() -> None:
    modules = {name.partition(".")[0] for name in imported_by("lint", "missing.pg", "missing.gq")}

    assert "lark" in modules
    assert modules & (LATER - {"lark", "omnigraph_compiler"}) == set()
