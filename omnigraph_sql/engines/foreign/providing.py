"""Datasets of Python as tables of DataFusion."""

from __future__ import annotations

from typing import Any

import pyarrow.dataset as pads
from datafusion import SessionContext

from omnigraph_sql.engines.foreign.model import Reading

_ALL = 1 << 62


def provided(dataset: pads.Dataset, reading: Reading) -> Any:
    """What a schema of DataFusion returns for a dataset: itself, or a view of it that no filter gets through."""
    reading.is_lazy = True
    return SessionContext().read_table(dataset).limit(_ALL).into_view() if reading.leaves_filters else dataset
