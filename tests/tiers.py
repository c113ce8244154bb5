"""Which tests a run takes.

There are three tiers: `check` takes a slice of every family, `test` every test, family, engine and invariant, but of what is
tried with many parameters only some of them, `all` everything. Hashes of names decide what a tier leaves out, so that a
run is the same on every machine.

Tests that are `slow` run in the tier `all` only. `one_of("engine")` means that of the cases that differ in this parameter
alone, the other tiers run one. Tests that draw their own cases ask `amount` how many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, Literal, get_args
from zlib import crc32

import pytest

Tier = Literal["check", "test", "all"]
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)

SHARES: Final = {
    "tests": 0.26,
    "tests/concurrency": 0.4,
    "tests/crash": 0.2,
    "tests/crash/test_merges.py": 0.03,
    "tests/docs": 1.0,
    "tests/golden": 0.3,
    "tests/invariants/test_merge.py": 0.06,
    "tests/invariants/test_merge_lineages.py": 0.1,
    "tests/invariants/test_merge_resolution.py": 0.12,
    "tests/property": 1.0,
    "tests/s3": 0.25,
    "tests/simulation": 0.5,
    "tests/spark": 0.3,
    "tests/sql": 0.3,
    "tests/unit": 0.25,
    "tests/unit/test_vocabulary.py": 1.0,
}
"""By directory or file, the share of the cases of each test that the tier `test` runs, one at least."""

TESTS: Final = {
    "tests": 1.0,
    "tests/cli": 0.45,
    "tests/concurrency": 0.6,
    "tests/crash": 0.4,
    "tests/invariants/test_merge_lineages.py": 0.6,
    "tests/invariants/test_tags.py": 0.6,
    "tests/packaging/test_wheel.py": 0.0,
    "tests/pipeline": 0.6,
    "tests/s3": 0.4,
    "tests/spark": 0.33,
    "tests/sql": 0.5,
    "tests/sql/test_bombs.py": 0.4,
    "tests/sql/test_endings.py": 0.6,
    "tests/sql/writes": 1.0,
    "tests/substrate": 0.6,
    "tests/unit": 0.62,
    "tests/unit/test_vocabulary.py": 1.0,
}
"""By directory or file, the share of the tests that the tier `test` runs. The long families start stores and processes."""

SLICES: Final = {
    "tests": 0.06,
    "tests/concurrency": 0.03,
    "tests/crash": 0.03,
    "tests/golden": 0.3,
    "tests/packaging": 1.0,
    "tests/packaging/test_wheel.py": 0.0,
    "tests/property": 0.15,
    "tests/s3": 0.03,
    "tests/simulation": 0.15,
    "tests/spark": 0.02,
    "tests/unit": 0.2,
    "tests/unit/test_vocabulary.py": 1.0,
}
"""By directory or file, the share of the tests of the tier `test` that the tier `check` runs."""


class _Run:
    tier: Tier = "all"


def configure(config: pytest.Config) -> None:
    """Note the tier of the run, which modules with tests ask for when they are imported."""
    _Run.tier = config.getoption("--tier")


def amount(*, check: int, test: int, all: int) -> int:
    """The number of cases to draw in this run."""
    return {"check": check, "test": test, "all": all}[_Run.tier]


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that do not belong to the tier of the run."""
    if _Run.tier == "all":
        return
    chosen = _one_of_each(item for item in items if item.get_closest_marker("slow") is None)
    chosen = [item for cases in _groups(chosen, _function).values() for item in _share(cases)]
    chosen = [item for item in chosen if _fraction(_function(item)) < _setting(TESTS, item.nodeid)]
    if _Run.tier == "check":
        chosen = [item for item in chosen if _fraction(item.nodeid) < _setting(SLICES, item.nodeid)]
    selected = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = [item for item in items if item in selected]


def gather_spark(items: list[pytest.Item]) -> None:
    """Let one worker run all tests with Spark, also those of pages and docstrings about it, so that Spark starts once."""
    for item in items:
        if "spark" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("spark"))


def _share(cases: list[pytest.Item]) -> list[pytest.Item]:
    share = _setting(SHARES, cases[0].nodeid)
    return [case for case in cases if _fraction(case.nodeid) < share] or [
        min(cases, key=lambda case: _fraction(case.nodeid))
    ]


def _fraction(name: str) -> float:
    """A number from 0 to 1 that depends on the name alone."""
    return crc32(name.encode()) / 2**32


def _setting(settings: dict[str, float], nodeid: str) -> float:
    """The setting of the file of a test, or of the nearest directory above it."""
    path = nodeid.partition("::")[0]
    while path not in settings:
        path = path.rpartition("/")[0]
    return settings[path]


def _one_of_each(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Of the cases of a test that differ only in the parameter that `one_of` names, one."""
    return [cases[crc32(key.encode()) % len(cases)] for key, cases in _groups(items, _all_but_one).items()]


def _groups(items: Iterable[pytest.Item], key: Callable[[pytest.Item], str]) -> dict[str, list[pytest.Item]]:
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _all_but_one(item: pytest.Item) -> str:
    """The name of a test and its parameters, but for the one that `one_of` names."""
    marker = item.get_closest_marker("one_of")
    if marker is None or not isinstance(item, pytest.Function):
        return item.nodeid
    params = item.callspec.params
    others = [f"{name}={getattr(params[name], 'id', params[name])}" for name in sorted(params) if name != marker.args[0]]
    return "/".join([_function(item), *others])
