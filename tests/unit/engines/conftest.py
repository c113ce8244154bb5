"""The engines, and the graph that they are asked about."""

import signal
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from tests.unit.engines import crowd as crowds


@pytest.fixture(params=crowds.ENGINES)
def engine(request: pytest.FixtureRequest) -> EngineName:
    name: EngineName = request.param
    return name


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = crowds.make(tmp_path_factory.mktemp("crowd") / "graph")
    made.query(crowds.PAIRS).cancel()  # what is read and compiled once does not count in tests
    return made


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """One node with an edge to each of 4000 others; each has a vector of 4 KiB."""
    graph = og.init(
        tmp_path_factory.mktemp("vectors") / "graph", "node Doc { key: String @key  v: Vector(1024) } edge Cites: Doc -> Doc"
    )
    keys = pa.array([f"d{number}" for number in range(4001)])
    numbers = pa.array(np.zeros(4001 * 1024, np.float32))
    docs = pa.table({"key": keys, "v": pa.FixedSizeListArray.from_arrays(numbers, 1024)})
    graph.load({"Doc": docs, "Cites": pa.table({"src": ["d0"] * 4000, "dst": keys.slice(1)})}, mode="append")
    return graph


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell that runs the tests in the background makes them ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
