"""Directory names of tables."""

from __future__ import annotations

from typing import Final

from omnigraph_sql.table_keys import TableKey

_PLACES: Final = {"node": "nodes", "edge": "edges", "table": "tables"}


def fnv1a64_hex(text: str) -> str:
    """FNV-1a, 64 bits, over the UTF-8 bytes of a name."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def table_path(table_key: str) -> str:
    """The directory of the table that a key names, below the root.

    >>> table_path("node:Person").partition("/")[0]
    'nodes'
    """
    key = TableKey(table_key)
    if key.kind not in _PLACES:
        raise ValueError(f"{key} has no table")
    return f"{_PLACES[key.kind]}/{fnv1a64_hex(key.name)}"


def table_name(path: str, branch: str | None) -> str:
    """The directory of a table branch, below the root."""
    return path if branch is None else f"{path}/tree/{branch}"
