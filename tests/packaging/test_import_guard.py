"""`import omnigraph_sql` refuses libraries that do not fit, and says what to do. Each case is a real process."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import omnigraph_sql
from omnigraph_sql import _compat

SOURCES = Path(omnigraph_sql.__file__).parent.parent
COMMAND = 'pip install "datafusion==54.1.*" "pylance==14.0.*"'
REPORT = """
try:
    import omnigraph_sql
except Exception as error:
    print(type(error).__module__, type(error).__name__, error.kind, error.exit_code, error.what)
    print(error)
else:
    print("imported")
"""


def install(directory: Path, name: str, version: str) -> None:
    """What an installed distribution looks like to the standard library: a directory with its metadata."""
    info = directory / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")


def import_with(packages: Path) -> str:
    """Imports omnigraph_sql in a process that sees the given packages and no site-packages."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(SOURCES)])}
    result = subprocess.run(
        [sys.executable, "-S", "-c", REPORT], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_libraries_that_fit_are_accepted(tmp_path: Path) -> None:
    install(tmp_path, "datafusion", "54.1.0")
    install(tmp_path, "pylance", "14.0.2")

    assert import_with(tmp_path) == "imported\n"


@pytest.mark.parametrize(
    ("datafusion", "pylance", "what", "complaints"),
    [
        ("55.0.0", "14.0.2", "datafusion", ["datafusion 54.x is needed, but datafusion 55.0.0 is installed"]),
        ("5.4.0", "14.0.2", "datafusion", ["datafusion 54.x is needed, but datafusion 5.4.0 is installed"]),
        ("540.0.0", "14.0.2", "datafusion", ["datafusion 54.x is needed, but datafusion 540.0.0 is installed"]),
        ("54.1.0", "14.1.0", "pylance", ["pylance 14.0.x is needed, but pylance 14.1.0 is installed"]),
        (None, "14.0.2", "datafusion", ["datafusion 54.x is needed, but datafusion is not installed"]),
        ("54.1.0", None, "pylance", ["pylance 14.0.x is needed, but pylance is not installed"]),
        (
            "53.0.0",
            None,
            "datafusion, pylance",
            [
                "datafusion 54.x is needed, but datafusion 53.0.0 is installed",
                "pylance 14.0.x is needed, but pylance is not installed",
            ],
        ),
    ],
)
def test_libraries_that_do_not_fit_are_named_with_the_remedy(
    tmp_path: Path, datafusion: str | None, pylance: str | None, what: str, complaints: list[str]
) -> None:
    for name, version in (("datafusion", datafusion), ("pylance", pylance)):
        if version is not None:
            install(tmp_path, name, version)

    output = import_with(tmp_path)

    assert output.startswith(f"omnigraph_sql.errors Configuration Configuration 2 {what}\n")
    for complaint in complaints:
        assert complaint in output
    assert output.endswith(f"hint: run {COMMAND}\n")


def test_a_newer_datafusion_found_first_is_refused(tmp_path: Path) -> None:
    install(tmp_path, "datafusion", "55.0.0")
    result = subprocess.run(
        [sys.executable, "-c", "import omnigraph_sql"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert result.returncode == 1
    assert "datafusion 55.0.0 is installed" in result.stderr
    assert COMMAND in result.stderr


def test_the_remedy_is_what_the_distribution_requires() -> None:
    project = tomllib.loads((SOURCES / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {need for need in project["dependencies"] if need.startswith(tuple(_compat.NEEDED))}

    assert set(re.findall(r'"([^"]+)"', _compat.REMEDY)) == pinned


def test_the_command_says_so_in_one_line(tmp_path: Path) -> None:
    install(tmp_path, "datafusion", "55.0.0")
    install(tmp_path, "pylance", "14.0.2")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCES)])}
    command = [sys.executable, "-S", "-m", "ogsql", "lint"]

    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)

    assert result.returncode == 2
    assert result.stderr.startswith("error: omnigraph-sql cannot work with the installed libraries")
    assert COMMAND in result.stderr
    assert "Traceback" not in result.stderr
