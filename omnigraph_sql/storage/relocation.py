"""Datasets that lie elsewhere than where they were written.

Lance writes the absolute address of the dataset that a branch was forked from into each version of the branch. After a
graph was moved or copied, those addresses name a place where there is nothing, or another graph. A version is therefore
opened with the addresses that its own place implies; what is committed on top of it has them from then on.

A version of a dataset is a message of Protocol Buffers. Only two of its fields matter here, so it is walked, not decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import lance

_BASE_PATHS: Final = 18
_PATH: Final = 4
_TRANSACTION: Final = 12
_NEXT_ROW_ID: Final = 14
_BRANCH: Final = 20
_FOOTER: Final = struct.Struct("<QHH4s")
"""The end of the file of a version: the position of the message, the format of the file, and a mark."""
_LENGTH: Final = struct.Struct("<I")
_MARK: Final = b"LANC"
_BYTES: Final = 2
_WIDTHS: Final = {1: 8, 5: 4}
"""The sizes of fields of a fixed width, by their wire type."""


def open_relocated(dataset: Any, root: str, name: str, **settings: Any) -> Any:
    """The dataset with the addresses that its place implies.

    `name` is the name of the dataset below `root`, without a branch. Nothing is read if the addresses are right.
    """
    bases = dataset.base_paths()
    if not any(_moved(base.path, root, name) for base in bases.values()):
        return dataset
    manifest = _rewritten(bytes(dataset._ds.serialized_manifest()), root, name)
    return lance.LanceDataset(dataset.uri, version=dataset.version, serialized_manifest=manifest, **settings)


def relocated_file(version_file: bytes, *, root: str, name: str) -> bytes:
    """The file of a version as it is in a copy of the dataset, with the addresses that the place of the copy implies."""
    return _changed(version_file, lambda message: _rewritten(message, root, name))


def flattened_file(version_file: bytes, *, root: str, name: str) -> bytes:
    """The file of a version of a branch, as the version of a dataset that has the files of all its bases in itself.

    `name` is the name of that dataset below `root`.
    """

    def flattened(message: bytes) -> bytes:
        parts = []
        for number, content, raw in _fields(message):
            if number == _BASE_PATHS and content is not None:
                base = b"".join(_with_own_path(field, f"{root}/{name}") for field in _fields(content))
                parts.append(_field(_BASE_PATHS, base))
            elif number != _BRANCH:
                parts.append(raw)
        return b"".join(parts)

    return _changed(version_file, flattened)


def _changed(version_file: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """The file of a version with another message in it. ValueError if it is not the file of a version."""
    if len(version_file) < _FOOTER.size or not version_file.endswith(_MARK):
        raise ValueError("not the file of a version")
    at, *rest = _FOOTER.unpack(version_file[-_FOOTER.size :])
    start = at + _LENGTH.size
    if start > len(version_file):
        raise ValueError("not the file of a version: it is cut short")
    (length,) = _LENGTH.unpack(version_file[at:start])
    message = change(version_file[start : start + length])
    return version_file[:at] + _LENGTH.pack(len(message)) + message + _FOOTER.pack(at, *rest)


def base_name(path: str, name: str) -> str:
    """The name below the root of a base: of the dataset `name` itself, or of a branch of it."""
    at = path.find(f"/{name}/tree/")  # the first one: the name of a branch may look like a place
    return name if at < 0 else path[at + 1 :]


def next_row_id(dataset: Any) -> int:
    """The row id that the next new row of the opened version gets."""
    for number, content, raw in _fields(bytes(dataset._ds.serialized_manifest())):
        if number == _NEXT_ROW_ID and content is None:
            _, start = _number(raw, 0)
            return _number(raw, start)[0]
    return 0


def transaction_name(dataset: Any) -> str:
    """The name of the transaction that made the opened version. No two versions have one name."""
    for number, content, _ in _fields(bytes(dataset._ds.serialized_manifest())):
        if number == _TRANSACTION and content is not None:
            return content.decode()
    return ""


def _moved(path: str, root: str, name: str) -> str | None:
    """The present path of a base; None for one that has not moved, or is no part of the dataset."""
    marker = f"/{name}"
    if path == f"{root}{marker}" or path.startswith(f"{root}{marker}/tree/"):
        return None
    at = path.find(f"{marker}/tree/")  # the first one: the name of a branch may look like a place
    if at < 0 and path.endswith(marker):
        at = len(path) - len(marker)
    if at < 0:
        return None
    return root + path[at:]


def _rewritten(manifest: bytes, root: str, name: str) -> bytes:
    """The message with the paths of its bases replaced."""
    parts = []
    for number, content, raw in _fields(manifest):
        if number == _BASE_PATHS and content is not None:
            base = b"".join(_with_path(field, root, name) for field in _fields(content))
            parts.append(_field(_BASE_PATHS, base))
        else:
            parts.append(raw)
    return b"".join(parts)


def _with_path(field: tuple[int, bytes | None, bytes], root: str, name: str) -> bytes:
    number, content, raw = field
    if number != _PATH or content is None:
        return raw
    place = _moved(content.decode(), root, name)
    return raw if place is None else _field(_PATH, place.encode())


def _with_own_path(field: tuple[int, bytes | None, bytes], place: str) -> bytes:
    number, content, raw = field
    return raw if number != _PATH or content is None else _field(_PATH, place.encode())


def _fields(message: bytes) -> Iterator[tuple[int, bytes | None, bytes]]:
    """The fields of a message: number, content if it has a length, and the field as it stands."""
    position = 0
    while position < len(message):
        start = position
        tag, position = _number(message, position)
        number, wire_type = tag >> 3, tag & 7
        content: bytes | None = None
        if wire_type == 0:
            _, position = _number(message, position)
        elif wire_type == _BYTES:
            length, position = _number(message, position)
            content = message[position : position + length]
            position += length
        elif wire_type in _WIDTHS:
            position += _WIDTHS[wire_type]
        else:
            raise ValueError(f"a version of a dataset has a field of wire type {wire_type}")
        yield number, content, message[start:position]


def _number(message: bytes, position: int) -> tuple[int, int]:
    """A number of variable length, and the position after it."""
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _field(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(content)) + content


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
