"""The graphs of these tests live in either store."""

import pytest

from tests.stores import Place


@pytest.fixture
def tmp_path(place: Place) -> Place:
    """A fresh place, which a test may take for a directory: a prefix of a bucket answers like one."""
    return place
