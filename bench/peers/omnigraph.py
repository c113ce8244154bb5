"""Our own graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import omnigraph_sql as og
import omnigraph_sql.engines.datafusion.engine  # what other systems load with themselves
import omnigraph_sql.graph
from bench.peers import Answer
from bench.social import Size, stored_graph
from bench.workloads import Workload

prepare = stored_graph


class Opened:
    def __init__(self, size: Size, directory: Path) -> None:
        self._graph = og.connect(stored_graph(size, directory))

    def run(self, workload: Workload, parameters: Mapping[str, Any]) -> Answer:
        return [tuple(row.values()) for row in self._graph.query(workload.gq, params=parameters).to_pylist()]
