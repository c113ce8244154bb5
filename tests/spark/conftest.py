"""One Spark for all tests of a process. Two cores, and up to three failures of a task before its job fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph_sql as og

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Person { key: String @key
  name: String?
  age: I32?
  @range(age, 0..150)
  mail: String? @unique }
node Note { text: String
  stars: U64? }
edge Knows: Person -> Person { since: Date? }
edge Owns: Person -> Note @card(0..2)
"""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:  # a page of the documentation has made one of its own, without retries
        running.stop()
    made = og.spark.session("local[2,3]", config={"spark.driver.memory": "1g"})
    yield made
    made.stop()


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA)
