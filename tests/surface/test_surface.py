"""Every public parameter and option is given values it was not made for: a typed error or success, never anything else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.surface import commands, targets
from tests.surface.runner import Outcome, outcomes
from tests.tiers import amount

PYTHON = targets.cases()
COMMANDS = commands.cases()
PYTHON_SLICE = amount(check=40, test=100, all=400)
COMMAND_SLICE = amount(check=25, test=40, all=250)
"""Cases that a short run tries; which, is drawn anew with each version of the lists."""


def slice_of(cases: list[str], size: int) -> list[str]:
    """Some of the cases, the same in every run: of each parameter at least one, or of as many as the number allows."""
    drawn = random.Random(len(cases))
    by_place: dict[str, list[str]] = {}
    for case in cases:
        by_place.setdefault(case.rpartition("=")[0], []).append(case)
    places = drawn.sample(sorted(by_place), min(size, len(by_place)))
    chosen = {drawn.choice(by_place[place]) for place in places}
    chosen |= set(drawn.sample(cases, max(0, size - len(chosen))))
    return [case for case in cases if case in chosen]


def bad(cases: list[str], root: Path) -> list[Outcome]:
    return [each for each in outcomes(cases, root) if not each.is_good]


def test_a_slice_of_the_python_surface(tmp_path: Path) -> None:
    assert not bad(slice_of(PYTHON, PYTHON_SLICE), tmp_path)


def test_a_slice_of_the_commands(tmp_path: Path) -> None:
    assert not bad(slice_of(COMMANDS, COMMAND_SLICE), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_the_python_surface(tmp_path: Path, part: int) -> None:
    assert not bad(PYTHON[part::8], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_the_commands(tmp_path: Path, part: int) -> None:
    assert not bad(COMMANDS[part::4], tmp_path)


def test_calls_with_their_usual_arguments_succeed(tmp_path: Path) -> None:
    """Otherwise every other case would be refused for another reason than its value."""
    cases = [f"{name}.=usual" for name in (*targets.targets(), *(name for name, _ in commands.tree()))]

    assert [each for each in outcomes(cases, tmp_path) if each.text != "ok"] == []


def test_every_exclusion_excludes_something() -> None:
    names = [f"{target.name}.{parameter}" for target in targets.targets().values() for parameter in target.parameters]
    assert targets.unused(targets.EXCLUSIONS, names) == []
    options = [f"{name}.{each.name}" for name, command in commands.tree() for each in command.params]
    assert targets.unused(commands.EXCLUSIONS, options) == []


def test_a_hang_and_a_death_are_noticed(tmp_path: Path) -> None:
    """The runner itself: a case that never ends, one that ends the process, and the ones after them."""
    found = list(outcomes(["runner.hang=1", "runner.die=1", "og.find_project.start=none"], tmp_path, seconds=10))

    assert [each.text.partition(":")[0] for each in found] == ["hangs", "raw end of the process (-9)", "ok"]
