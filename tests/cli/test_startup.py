"""What `ogsql` imports before it has something to do. Times are not measured here: they depend on the machine."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from omnigraph_sql.cli.app import COMMANDS
from tests.cli.graphs import DREDGE, make_graph
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
    "sqlglot",
    "numba",
    "scipy",
    "pandas",
}
ALWAYS_LATER = {"numba", "llvmlite", "scipy", "pandas", "duckdb", "pyspark", "polars", "prompt_toolkit", "urllib3"}
"""What no command on a small graph has a use for: few rows need no compiled kernels, and no value is a data frame."""
METADATA_LATER = {*ALWAYS_LATER, "lark", "sqlglot", "datafusion", "asyncio"}


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
        ["diff", "--help"],
        ["changes", "poll", "--help"],
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


def test_help_imports_no_command() -> None:
    modules = imported_by("--help")

    assert {
        name for name in modules if name.startswith(("omnigraph_sql.cli.commands", "omnigraph_sql.cli.actions"))
    } == set()


def test_the_list_of_commands_says_what_their_help_says() -> None:
    for name, declared in COMMANDS.items():
        command = declared.load()
        assert command.name == name
        assert click.Command(name, help=declared.summary).get_short_help_str(200) == command.get_short_help_str(200)


def test_the_commands_of_the_compiler_import_no_engine() -> None:
    modules = {name.partition(".")[0] for name in imported_by("lint", "missing.pg", "missing.gq")}

    assert "lark" in modules
    assert modules & (LATER - {"lark", "omnigraph_compiler"}) == set()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_graph(tmp_path_factory.mktemp("startup"))


def packages_of(*arguments: str) -> set[str]:
    """The packages that a command which works has in memory when it ends."""
    script = f"""
import atexit, sys
sys.argv = ["ogsql", *{list(arguments)!r}]
atexit.register(lambda: print(*{{name.partition(".")[0] for name in sys.modules}}, file=sys.stderr))
import ogsql
ogsql.main()
"""
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert result.returncode == 0, result.stderr
    return set(result.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["branch", "list", "GRAPH"],
        ["commit", "list", "GRAPH"],
        ["recovery", "list", "GRAPH"],
        ["snapshot", "GRAPH"],
        ["export", "GRAPH"],
        ["diff", "GRAPH", "main@1", "main"],
        ["changes", "poll", "GRAPH", "--start", "beginning"],
        ["changes", "baseline", "GRAPH"],
        ["branch", "create", "GRAPH", "survey"],
        ["tag", "create", "GRAPH", "v1"],
        ["tag", "list", "GRAPH"],
    ],
    ids=" ".join,
)
def test_commands_that_read_metadata_import_no_grammar_and_no_engine(graph: Path, arguments: list[str]) -> None:
    packages = packages_of(*(str(graph) if word == "GRAPH" else word for word in arguments))

    assert "lance" in packages
    assert packages & METADATA_LATER == set()


def test_a_mutation_imports_no_engine(graph: Path) -> None:
    packages = packages_of("mutate", str(graph), "-e", DREDGE, "--params", '{"code": "BEANR", "depth": 17.0}')

    assert {"lance", "lark"} <= packages
    assert packages & (METADATA_LATER - {"lark"}) == set()


@pytest.mark.parametrize(
    "match",
    ["$p: Port", "$p: Port $p lane $q", "$p: Port $p lane{1,3} $q", "$p: Port not { $p lane $q }"],
)
def test_a_query_on_few_rows_imports_one_engine_and_no_kernels(graph: Path, match: str) -> None:
    packages = packages_of("query", str(graph), "-e", f"query q() {{ match {{ {match} }} return {{ $p.code }} }}")

    assert {"lance", "lark", "sqlglot", "datafusion"} <= packages
    assert packages & ALWAYS_LATER == set()


def test_a_statement_imports_one_engine_and_no_grammar(graph: Path) -> None:
    packages = packages_of("sql", str(graph), "select count(*) as n from Port")

    assert {"lance", "datafusion"} <= packages
    assert packages & (ALWAYS_LATER | {"lark"}) == set()


def test_data_frames_are_made_although_commands_hide_pandas_from_arrow() -> None:
    pytest.importorskip("pandas")
    script = """
import sys
from omnigraph_sql.cli.arrow_import import import_arrow
import_arrow()
import lance
import pyarrow as pa
assert "pandas" not in sys.modules, "hidden"
frame = pa.table({"n": [1, None], "text": ["a", "b"]}).to_pandas()
import pandas
print(type(frame) is pandas.DataFrame, pa.Table.from_pandas(frame).num_rows, pa.array(pandas.Series([1.0, None])).null_count)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=TIMEOUT)

    assert result.stdout == "True 2 1\n", result.stderr
