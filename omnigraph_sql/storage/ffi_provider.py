"""Table providers for engines, with batch lengths that suit the size of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_BATCH_BYTES: Final = 4 << 20
_UNPACKED: Final = 2
"""Estimated ratio of the sizes of rows in memory and in files."""
_ROWS: Final = (65_536, 32_768, 16_384)
_ROW_BYTES: Final = 4
"""The row size that Lance assumes when no batch length is given: a batch has as many rows as fit into a block."""


def make_provider(dataset: Any, reopen: Callable[[int], Any]) -> Any:
    """A table provider over a version, which `reopen` opens with blocks of another size.

    The batches of Lance are short, and every one that passes from one library to another costs: rows that are short
    themselves come in longer ones.
    """
    from lance import FFILanceTableProvider

    rows = batch_rows(dataset)
    return FFILanceTableProvider(dataset if rows is None else reopen(rows * _ROW_BYTES))


def batch_rows(dataset: Any) -> int | None:
    """Return the number of rows per batch; None for Lance's default."""
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    count = sum(fragment.physical_rows for fragment in fragments)
    sizes = [file.file_size_bytes for fragment in fragments for file in fragment.files]
    if count <= _ROWS[-1] or not all(sizes):
        return None
    row = max(1, _UNPACKED * sum(sizes) // count)
    return next((rows for rows in _ROWS if rows * row <= _BATCH_BYTES), None)
