"""Versions of tables as engines read them, in batches of a length that suits their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_BATCH_BYTES: Final = 4 << 20
_UNPACKED: Final = 2
"""How much longer rows are in memory than in files, roughly."""
_ROWS: Final = (65_536, 32_768, 16_384)
_ROW_BYTES: Final = 4
"""What Lance takes for the size of a row where nobody says how long batches are: they have as many as fit into a block."""


def make_provider(dataset: Any, reopen: Callable[[int], Any]) -> Any:
    """A table provider over a version, which `reopen` opens with blocks of another size.

    The batches of Lance are short, and every one that passes from one library to another costs: rows that are short
    themselves come in longer ones.
    """
    from lance import FFILanceTableProvider

    rows = batch_rows(dataset)
    return FFILanceTableProvider(dataset if rows is None else reopen(rows * _ROW_BYTES))


def batch_rows(dataset: Any) -> int | None:
    """How many rows a batch should have; None for as many as Lance gives anyway."""
    found = [each.metadata for each in dataset.get_fragments()]
    count = sum(each.physical_rows for each in found)
    sizes = [file.file_size_bytes for each in found for file in each.files]
    if count <= _ROWS[-1] or not all(sizes):
        return None
    row = max(1, _UNPACKED * sum(sizes) // count)
    return next((rows for rows in _ROWS if rows * row <= _BATCH_BYTES), None)
