"""Approximate nearest rows of a point, by a vector index."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph_sql.storage.error_translation import translated_errors
from omnigraph_sql.storage.handles import SnapshotHandle

PROBES: Final = 20
REFINED: Final = 10
"""The factor by which candidates outnumber the wanted rows; candidates are compared exactly."""


def has_index(handle: SnapshotHandle, column: str) -> bool:
    """True if a version has a vector index on a column. Rows that it does not cover are compared one by one."""
    return any(
        index.field_names == [column] and index.index_type.upper() == "IVF_PQ"
        for index in handle._dataset.describe_indices()
    )


def probably_nearest(
    handle: SnapshotHandle, column: str, point: npt.NDArray[np.float32], limit: int, metric: str
) -> npt.NDArray[np.int64]:
    """Return the positions of `limit` candidate rows, ascending; most of the nearest rows are among them."""
    request = {"column": column, "q": point, "k": limit, "nprobes": PROBES, "refine_factor": REFINED, "metric": metric}
    with translated_errors(handle.path):
        scanner = handle._dataset.scanner(columns=["_rowoffset", "_distance"], nearest=request)
        offsets = scanner.to_table().column("_rowoffset").to_numpy().astype(np.int64)
    return np.sort(offsets)
