"""Settings shared by all tests."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import hangs, stores, tiers
from tests.stores import Place, S3Place

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
    parser.addoption("--update-sql", action="store_true", help="rewrite the plans and SQL in tests/golden")
    parser.addoption("--tier", choices=tiers.TIERS, default="all", help="which tests run: a slice, every family, or all")
    parser.addoption("--seeds", type=int, metavar="N", help="how many walks tests/simulation takes")
    parser.addoption("--seed-start", type=int, default=0, metavar="S", help="the seed of the first of them")
    parser.addoption("--store", choices=["local", "s3"], default="local", help="where the graphs of the store suites live")


def pytest_configure(config: pytest.Config) -> None:
    tiers.configure(config)
    config.pluginmanager.register(hangs)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.select(config, items)
    tiers.gather_spark(items)
    if config.getoption("--store") != "local":
        skip = pytest.mark.skip(reason="is about directories")
        for item in items:
            if item.get_closest_marker("local") is not None:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """An S3 of this run's own."""
    with stores.s3_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def new_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Place]]:
    """Makes fresh places for graphs, in the store that the run is about."""
    if request.config.getoption("--store") == "local":
        yield tmp_path_factory.mktemp
        return
    endpoint, numbers = request.getfixturevalue("s3_endpoint"), itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "patience", 6)
        for name, value in stores.settings(endpoint).items():
            patch.setenv(name, value)
        patch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield lambda name: S3Place(endpoint, f"{os.getpid()}-{next(numbers)}-{name}")


@pytest.fixture
def place(new_place: Callable[[str], Place]) -> Iterator[Place]:
    """A fresh place for graphs."""
    made = new_place("test")
    yield made
    if isinstance(made, S3Place):
        stores.remove(made)  # the emulator takes the longer to list objects, the more of them there are anywhere
