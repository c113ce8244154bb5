"""What an import pulls in, seen from a fresh process."""

import subprocess
import sys

import pytest

# lark looks for interegular, a development tool, and imports it where it is installed.
COMPILER_MAY_LOAD = {"omnigraph_compiler", "lark", "interegular"}
HEAVY = {"lance", "datafusion", "pyarrow", "numpy", "lark", "rich"}


def loaded_by(module: str) -> set[str]:
    """The top-level names that importing a module adds to those of a bare interpreter."""
    script = f"import sys; before = set(sys.modules); import {module}; print(*(set(sys.modules) - before))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    return {name.partition(".")[0] for name in result.stdout.split()}


def test_the_compiler_loads_lark_and_the_standard_library_only() -> None:
    loaded = loaded_by("omnigraph_compiler")

    assert "omnigraph_compiler" in loaded
    assert loaded - sys.stdlib_module_names - COMPILER_MAY_LOAD == set()


@pytest.mark.parametrize("module", ["omnigraph_sql", "omnigraph_sql.cli"])
def test_heavy_packages_wait_until_they_are_needed(module: str) -> None:
    loaded = loaded_by(module)

    assert "omnigraph_sql" in loaded
    assert loaded & HEAVY == set()
