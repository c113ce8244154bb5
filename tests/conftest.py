"""Settings shared by all tests."""

import pytest
from hypothesis import HealthCheck, settings

# Generated schemas with their queries are large values; drawing one takes longer than Hypothesis likes by default.
settings.register_profile(
    "ci",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-cost", action="store_true", help="rewrite the golden files of tests/cost")
    parser.addoption("--seeds", type=int, default=300, metavar="N", help="how many walks tests/simulation takes")
    parser.addoption("--seed-start", type=int, default=0, metavar="S", help="the seed of the first of them")
