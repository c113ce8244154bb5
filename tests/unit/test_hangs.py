"""A test that hangs fails, and the others run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import collections, itertools, time
import pytest

@pytest.mark.hangs_after(60)
def test_in_time():
    pass

@pytest.mark.hangs_after(0.5)
def test_waits():
    time.sleep(100)

@pytest.mark.hangs_after(0.5)
def test_swallows():
    try:
        time.sleep(100)
    except BaseException:
        pass

def test_later():
    time.sleep(1.2)

@pytest.mark.hangs_after(0.5)
def test_native():
    collections.deque(itertools.count(), maxlen=0)
"""


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text("from tests.hangs import *")
    (directory / "test_it.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
    ]
    options = [f"--rootdir={directory}", f"--override-ini=pythonpath={ROOT}", *arguments, str(directory)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, cwd=directory, env=environment, timeout=120
    )


@pytest.mark.slow
def test_a_test_that_hangs_fails_alone(tmp_path: Path) -> None:
    done = run(tmp_path, "-k", "not native")

    assert "PASSED test_it.py::test_in_time" in done.stdout
    assert "FAILED test_it.py::test_waits - Failed: still running after 0.5 seconds" in done.stdout
    assert "FAILED test_it.py::test_swallows - AssertionError: the alarm was swallowed" in done.stdout
    assert "PASSED test_it.py::test_later" in done.stdout


@pytest.mark.slow
def test_native_code_that_never_returns_ends_its_worker_only(tmp_path: Path) -> None:
    done = run(tmp_path, "-n", "1")

    assert "PASSED test_it.py::test_later" in done.stdout
    assert "FAILED test_it.py::test_native" in done.stdout
    assert "in test_native" in done.stderr, "the stacks say where"
