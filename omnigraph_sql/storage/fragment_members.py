"""Validation of the JSON members of a fragment.

Lance does not validate them: it fails during the commit, or creates an unreadable version. All functions here
raise `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_MOST_32: Final = (1 << 31) - 1
_MOST_64: Final = (1 << 63) - 1
_MOST_DRAWN: Final = (1 << 64) - 1
"""The bound of the random numbers in names of deletion files."""
_DELETIONS: Final = ("array", "bitmap")

Check = Callable[[Any], bool]


def check_members(entry: Any) -> None:
    """Raise unless every member of a fragment is of its type and within its bounds."""
    _check(entry, "a fragment", _FRAGMENT)
    for file in entry["files"]:
        _check(file, "a file of a fragment", _FILE)


def check_whole(value: Any, what: str) -> int:
    """A whole number that is not negative."""
    if not _is_whole(value):
        raise ValueError(f"{what} is no whole number from 0")
    return int(value)


def check_wholes(value: Any, what: str) -> list[int]:
    """A list of whole numbers that are not negative."""
    if not _is_list_of(_is_whole)(value):
        raise ValueError(f"{what} is no list of whole numbers from 0")
    return list(value)


def _check(entry: Any, what: str, members: dict[str, Check]) -> None:
    if not isinstance(entry, dict):
        raise ValueError(f"{what} is no object")
    for name, value in entry.items():
        if name not in members:
            raise ValueError(f"{what} has a member that is not known")
        if not members[name](value):
            raise ValueError(f"`{name}` of {what} is of the wrong type or too large")
    for name in _NEEDED & members.keys() - entry.keys():
        raise ValueError(f"{what} lacks `{name}`")


def _is_whole(value: Any, least: int = 0, most: int = _MOST_64) -> bool:
    return type(value) is int and least <= value <= most


def _is_small(value: Any) -> bool:
    return _is_whole(value, most=_MOST_32)


def _is_field(value: Any) -> bool:
    """The id of a field or the number of a column; negative ones mark those that are gone."""
    return _is_whole(value, least=-_MOST_32, most=_MOST_32)


def _is_list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_deletion(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == _DELETION.keys() and all(_DELETION[n](v) for n, v in value.items())


def _is_versions(value: Any) -> bool:
    """Row ids, or versions of rows: Lance reads them itself, and refuses what they may not be."""
    return isinstance(value, dict | str)


_FRAGMENT: Final[dict[str, Check]] = {
    "id": _is_small,
    "files": lambda value: isinstance(value, list) and len(value) > 0,
    "overlays": lambda value: value == [],
    "physical_rows": _is_whole,
    "deletion_file": _or_none(_is_deletion),
    "row_id_meta": _or_none(_is_versions),
    "created_at_version_meta": _or_none(_is_versions),
    "last_updated_at_version_meta": _or_none(_is_versions),
}
_FILE: Final[dict[str, Check]] = {
    "fields": _is_list_of(_is_field),
    "column_indices": _is_list_of(_is_field),
    "file_major_version": _is_small,
    "file_minor_version": _is_small,
    "file_size_bytes": _or_none(_is_whole),
    "base_id": _or_none(_is_small),
    "path": lambda value: isinstance(value, str),
}
_DELETION: Final[dict[str, Check]] = {
    "read_version": _is_whole,
    "id": lambda value: _is_whole(value, most=_MOST_DRAWN),
    "file_type": lambda value: isinstance(value, str) and value in _DELETIONS,
    "num_deleted_rows": _is_whole,
    "base_id": _or_none(_is_small),
}
_NEEDED: Final = {*_FRAGMENT, *_FILE} - {"overlays", "created_at_version_meta", "last_updated_at_version_meta"}
