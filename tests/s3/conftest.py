"""Graphs on an S3 of the tests' own, whatever `--store` says."""

import itertools
import os
from collections.abc import Iterator

import pytest

from tests import stores
from tests.stores import S3Place

_numbers = itertools.count()


@pytest.fixture
def root(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Place]:
    """A prefix of its own, and the environment in which it is reached."""
    for name, value in stores.settings(s3_endpoint).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    made = S3Place(s3_endpoint, f"s3-{os.getpid()}-{next(_numbers)}")
    yield made
    stores.remove(made)
