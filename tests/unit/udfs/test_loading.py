"""What importing the operators costs, and that compiled code runs from many threads at once."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import omnigraph_udfs
from omnigraph_udfs.csr import build, distinct
from omnigraph_udfs.reach import reach
from omnigraph_udfs.vector import Vectors, nearest

MODULES = [found.name for found in pkgutil.iter_modules(omnigraph_udfs.__path__, "omnigraph_udfs.") if not found.ispkg]


def test_importing_the_operators_does_not_load_the_compiler_of_kernels() -> None:
    script = f"import sys, {', '.join(MODULES)}; print('numba' in sys.modules, 'scipy' in sys.modules)"

    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)

    assert result.stdout == "False False\n", result.stderr


@pytest.mark.parametrize("name", MODULES)
def test_whatever_a_module_exports_is_there_and_documented(name: str) -> None:
    module = importlib.import_module(name)

    for exported in module.__all__:
        value = getattr(module, exported)
        if callable(value) and value.__module__ == name:
            assert value.__doc__
            assert not value.__doc__.startswith(f"{exported}("), "a dataclass needs a docstring of its own"


def test_compiled_code_runs_without_a_place_to_keep_it() -> None:
    """A read-only installation, and a user without a home."""
    script = """
import inspect, sys
from numba.core import caching
for name, locator in inspect.getmembers(caching, inspect.isclass):
    if issubclass(locator, caching._CacheLocator):
        locator.from_function = classmethod(lambda *_: None)
import numpy as np
from omnigraph_udfs.kernels import adjacency
counts = np.zeros(2, np.int64)
adjacency.tally(np.array([1], np.int32), counts)
print(counts.tolist())
"""

    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False, timeout=120
    )

    assert result.stdout == "[0, 1]\n", result.stderr


def test_compiled_code_is_cached_where_omnigraph_may_write(tmp_path: Path) -> None:
    """A read-only installation and home; the processes of a container share a directory."""
    script = """
from numba.core import caching
for locator in (caching.InTreeCacheLocator, caching.UserWideCacheLocator):
    locator.from_function = classmethod(lambda *_: None)
import numpy as np
from omnigraph_udfs.kernels import adjacency
counts = np.zeros(2, np.int64)
adjacency.tally(np.array([1], np.int32), counts)
print(counts.tolist(), sum(adjacency.tally.stats.cache_hits.values()))
"""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["OMNIGRAPH_CACHE_DIR"] = str(tmp_path)
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        for _ in range(2)
    ]

    assert [result.stdout for result in outputs] == ["[0, 1] 0\n", "[0, 1] 1\n"], outputs[0].stderr
    assert list((tmp_path / "kernels").rglob("*.nbi"))


def test_a_process_that_goes_on_asking_loads_compiled_code_meanwhile() -> None:
    script = """
import sys, time
from omnigraph_udfs import numpy_fallback
assert numpy_fallback.is_enough(numpy_fallback.SOME)
print("numba" in sys.modules)
until = time.monotonic() + 100
while numpy_fallback.is_enough(numpy_fallback.SOME) and time.monotonic() < until:
    time.sleep(0.05)
print("numba" in sys.modules, numpy_fallback.is_enough(numpy_fallback.FEW))
"""

    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)

    assert result.stdout == "False\nTrue True\n", result.stderr


def test_answers_are_the_same_from_many_threads() -> None:
    random = np.random.default_rng(8)
    lanes = distinct(build(random.integers(0, 500, 2000), random.integers(0, 500, 2000), sources=500, width=500))
    vectors = Vectors(random.standard_normal((70_000, 4)).astype(np.float32))

    def ask(number: int) -> tuple[list[int], list[int]]:
        found = reach(lanes, [number], least=1, most=4).targets.tolist()
        return sorted(found), nearest(vectors, vectors.matrix[number], limit=5).positions.tolist()

    alone = [ask(number) for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(16))) == alone
