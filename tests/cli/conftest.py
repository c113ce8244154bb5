"""What the tests of the command line share."""

from pathlib import Path

import pytest

from tests.cli.ogsql import BROKEN, MISSPELT, QUERIES, SCHEMA


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a schema, queries that fit it and queries that do not."""
    texts = {"ports.pg": SCHEMA, "ports.gq": QUERIES, "misspelt.gq": MISSPELT, "broken.gq": BROKEN}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path
