"""Equality of rows without ids: the same rows in any order, each as often."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph_sql.history.row_changes import equal_rows
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import Positions, gathered, portions

Rows: TypeAlias = tuple[SnapshotHandle, Positions]
"""Rows of a version of a table, by their positions."""
_DIGEST = 16


def have_equal_rows(storage: TableStorage, first: Rows, second: Rows) -> bool:
    """True if two sets of rows of tables with one schema are the same but for their order."""
    if len(first[1]) != len(second[1]):
        return False
    names = storage.schema(first[0]).names
    start = 0
    for part in portions(storage, first[0], names, len(first[1])):
        # What was copied is equal place by place.
        if not equal_rows(*(gathered(storage, handle, names, rows[part]) for handle, rows in (first, second))).all():
            break
        start = part.stop
    rest = [(handle, positions[start:]) for handle, positions in (first, second)]
    # Most tables that differ do so in their first column already.
    return all(_counts(storage, rest[0], some) == _counts(storage, rest[1], some) for some in (names[:1], names))


def _counts(storage: TableStorage, rows: Rows, names: list[str]) -> Counter[bytes]:
    """How often each row is there, by a digest of its values."""
    handle, positions = rows
    ordered = np.sort(positions)
    counts: Counter[bytes] = Counter()
    for part in portions(storage, handle, names, len(ordered)):
        table = gathered(storage, handle, names, ordered[part])
        texts = zip(*(_texts(column) for column in table.columns), strict=True)
        counts.update(hashlib.blake2b("\0".join(row).encode(), digest_size=_DIGEST).digest() for row in texts)
    return counts


def _texts(column: pa.ChunkedArray) -> list[str]:
    """Texts that only equal values share: those of floats tell the zeros apart, and null is unlike any value."""
    kind = _countable(column.type)
    values = column if kind == column.type else column.cast(kind)
    return [repr(value) for value in values.to_pylist()]


def _countable(kind: pa.DataType) -> pa.DataType:
    """A type with times as numbers: Python has none with nanoseconds."""
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_countable(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_countable(kind.value_type))
    return kind
