"""How often a law is tried: a quick round with the same cases every time, and a long one with new cases every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from tests.tiers import amount

QUICK = 150
LONG = 2_000


def law(
    *strategies: SearchStrategy[Any], quick: int = QUICK, long: int = LONG
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Turn a function of generated values into a pytest test with a quick and a long round.

    The quick round is the same on every run, so that a change is judged by what it changes. The long round belongs to the
    slow set and looks elsewhere each time; a failure prints how to repeat it.
    """
    short = amount(check=quick // 6, test=quick // 5, all=quick)

    def wrap(function: Callable[..., None]) -> Callable[[int], None]:
        rounds = [pytest.param(short, id="quick"), pytest.param(long, id="long", marks=pytest.mark.slow)]

        def run(cases: int) -> None:
            settings(max_examples=cases, derandomize=cases == short)(given(*strategies)(function))()

        run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
        marked: Callable[[int], None] = pytest.mark.parametrize("cases", rounds)(run)
        return marked

    return wrap
