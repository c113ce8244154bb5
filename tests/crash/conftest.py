"""The graphs of these tests live in either store."""

import pytest

from tests.crash.racing import LEASES
from tests.stores import Place


@pytest.fixture
def tmp_path(place: Place) -> Place:
    """A fresh place, which a test may take for a directory: a prefix of a bucket answers like one."""
    return place


@pytest.fixture(params=["leases", "no leases"])
def leases(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "no leases":
        monkeypatch.setenv(LEASES, "off")
    return bool(request.param == "leases")
