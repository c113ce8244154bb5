"""The systems that are compared. Each opens its own copy of the data and answers a workload with rows."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.social import Size
from bench.workloads import Workload

Answer = list[tuple[Any, ...]]


class Peer(Protocol):
    """An open database."""

    def run(self, workload: Workload, parameters: Mapping[str, Any]) -> Answer: ...


@dataclass(frozen=True)
class System:
    title: str
    module: str
    packages: tuple[str, ...]

    def prepare(self, size: Size, directory: Path) -> None:
        """Create its copy of the data, if it is missing."""
        prepare: Callable[[Size, Path], object] = importlib.import_module(self.module).prepare
        prepare(size, directory)

    def open(self, size: Size, directory: Path) -> Peer:
        """Open its copy of the data."""
        peer: Peer = importlib.import_module(self.module).Opened(size, directory)
        return peer


OURS = "omnigraph"
SYSTEMS = {
    OURS: System("omnigraph", "bench.peers.omnigraph", ("omnigraph-sql", "pylance", "numpy", "numba", "scipy")),
    "duckdb": System("DuckDB", "bench.peers.duck", ("duckdb",)),
    "ladybug": System("LadybugDB", "bench.peers.lady", ("ladybug",)),
    "datafusion": System("DataFusion", "bench.peers.fusion", ("datafusion",)),
}


def normalised(rows: Answer) -> Answer:
    """Round numbers, so that rows of different systems compare equal."""
    return [tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row) for row in rows]
