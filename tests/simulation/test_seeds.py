"""Seeded walks: the graph and the model agree after every step, whatever crashes on the way."""

import shutil
from pathlib import Path

import pytest

from tests.simulation.walk import walk
from tests.tiers import amount

CHUNK = 25


def check(directory: Path, seed: int) -> None:
    steps: list[str] = []
    root = directory / str(seed)
    try:
        walk(root, seed, say=steps.append)
    except Exception as error:
        text = "\n".join([f"seed {seed}; repeat it with: python -m tests.simulation {seed}", *steps])
        raise AssertionError(f"{text}\n{error}") from error
    shutil.rmtree(root)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        start, seeds = metafunc.config.getoption("--seed-start"), metafunc.config.getoption("--seeds")
        metafunc.parametrize("seed", range(start, start + (seeds or amount(check=60, test=60, all=300))))


def test_a_walk(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(10_000, 15_000, CHUNK))
def test_more_walks(tmp_path: Path, start: int) -> None:
    for seed in range(start, start + CHUNK):
        check(tmp_path, seed)
