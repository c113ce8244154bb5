"""A graph to fill, and files to fill it from."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph_sql as og
from tests.pipeline.world import SCHEMA, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty graph of people."""
    og.init(tmp_path / "g", SCHEMA).close()
    return World(tmp_path)
