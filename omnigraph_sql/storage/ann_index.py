"""Rows that are probably nearest to a point, by an index of vectors."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph_sql.storage.error_translation import translated_errors
from omnigraph_sql.storage.handles import SnapshotHandle

PROBES: Final = 20
REFINED: Final = 10
"""So many times as many rows as wanted are compared exactly."""


def has_index(handle: SnapshotHandle, column: str) -> bool:
    """True if a version has an index of vectors on a column. Rows it does not know are compared one by one."""
    return any(
        index.field_names == [column] and index.index_type.upper() == "IVF_PQ"
        for index in handle._dataset.describe_indices()
    )


def probably_nearest(
    handle: SnapshotHandle, column: str, point: npt.NDArray[np.float32], limit: int, metric: str
) -> npt.NDArray[np.int64]:
    """The positions of as many rows as the limit says, ascending; most of the nearest are among them."""
    request = {"column": column, "q": point, "k": limit, "nprobes": PROBES, "refine_factor": REFINED, "metric": metric}
    with translated_errors(handle.path):
        scanner = handle._dataset.scanner(columns=["_rowoffset", "_distance"], nearest=request)
        offsets = scanner.to_table().column("_rowoffset").to_numpy().astype(np.int64)
    return np.sort(offsets)
