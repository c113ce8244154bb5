"""Plain DataFusion over the Lance tables of our graph, ids as they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datafusion
import lance

import omnigraph_sql as og
from bench.peers import Answer
from bench.peers.duck import TABLES
from bench.social import Size, stored_graph
from bench.workloads import Workload
from omnigraph_sql.table_keys import TableKey

prepare = stored_graph


class Opened:
    def __init__(self, size: Size, directory: Path) -> None:
        self._context = datafusion.SessionContext()
        with og.connect(stored_graph(size, directory), read_only=True) as graph:
            entries = graph.snapshot().entries
            paths = {key: Path(graph.uri) / entry.path for key, entry in entries.items()}
        for key, path in paths.items():
            provider = lance.FFILanceTableProvider(lance.dataset(str(path)))
            self._context.register_table(TABLES[TableKey(key).name], provider)

    def run(self, workload: Workload, parameters: Mapping[str, Any]) -> Answer:
        frame = self._context.sql(workload.sql, param_values=dict(parameters))
        return [tuple(row.values()) for row in frame.to_arrow_table().to_pylist()]
