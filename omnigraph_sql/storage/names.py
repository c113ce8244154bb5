"""Directory names of tables."""

from __future__ import annotations


def fnv1a64_hex(text: str) -> str:
    """FNV-1a, 64 bits, over the UTF-8 bytes of a name."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def table_name(path: str, branch: str | None) -> str:
    """Where the files of a table branch are, below the root."""
    return path if branch is None else f"{path}/tree/{branch}"
