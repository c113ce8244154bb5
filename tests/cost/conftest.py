"""The fixture that compares with golden files."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from tests.cost.counting import Cost, check

Golden = Callable[[str, Mapping[str, Cost]], None]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(name, cases)`: the costs are those of `golden/NAME.txt`."""
    return partial(check, update=request.config.getoption("--update-cost"))
