"""What the tests of the command line share."""

import shutil
from pathlib import Path

import pytest

from tests.cli.graphs import make_graph
from tests.cli.ogsql import BROKEN, MISSPELT, QUERIES, SCHEMA


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a schema, queries that fit it and queries that do not."""
    texts = {"ports.pg": SCHEMA, "ports.gq": QUERIES, "misspelt.gq": MISSPELT, "broken.gq": BROKEN}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def model_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small graph that nobody may change."""
    return make_graph(tmp_path_factory.mktemp("model"))


@pytest.fixture
def graph(model_graph: Path, tmp_path: Path) -> Path:
    """A small graph of one's own."""
    return Path(shutil.copytree(model_graph, tmp_path / "graph"))
