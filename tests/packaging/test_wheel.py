"""The distribution: what the wheel holds, and that it works in an environment that has nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import omnigraph_sql

ROOT = Path(omnigraph_sql.__file__).parent.parent
PACKAGES = {"omnigraph_compiler", "omnigraph_udfs", "omnigraph_sql", "ogsql", "pyspark_omnigraph"}
DATA_FILES = {
    "omnigraph_compiler/grammar/schema.lark",
    "omnigraph_compiler/grammar/query.lark",
    "omnigraph_compiler/grammar/schema.tables",
    "omnigraph_compiler/grammar/query.tables",
    *(f"{package}/py.typed" for package in PACKAGES),
}


def run(*command: str | Path) -> str:
    result = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory, ROOT)
    (built,) = directory.glob("*.whl")
    return built


def test_the_wheel_holds_the_packages_with_their_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    packages = {name.partition("/")[0] for name in names} - {f"omnigraph_sql-{omnigraph_sql.__version__}.dist-info"}

    assert packages == PACKAGES
    assert names >= DATA_FILES
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)

    for package in PACKAGES - {"pyspark_omnigraph"}:  # which only Spark imports
        location = run(python, "-I", "-c", f"import {package}; print({package}.__file__)")
        assert Path(location.strip()).is_relative_to(environment)
    assert omnigraph_sql.__version__ in run(environment / "bin" / "ogsql", "--version")
