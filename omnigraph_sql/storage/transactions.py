"""Staged writes as JSON, so that they can cross processes without executing anything on the other side."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from lance.dataset import LanceOperation, Transaction
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph_sql.errors import BadRequest, Internal
from omnigraph_sql.storage.fragment_members import check_members, check_whole, check_wholes

_DAMAGE: Final = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    OSError,
    OverflowError,
    RecursionError,
    pa.ArrowException,
)
_MODES: Final = ("rewrite_rows", "rewrite_columns")
FILE_NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,200}\.lance")
"""The name of a data file, right below the data of its lineage."""


def to_json(transaction: Any) -> dict[str, Any]:
    """A staged append, overwrite or update."""
    operation = transaction.operation
    match operation:
        case LanceOperation.Append():
            content: dict[str, Any] = {"append": {"fragments": _fragments(operation.fragments)}}
        case LanceOperation.Overwrite():
            schema = operation.new_schema
            arrow = schema if isinstance(schema, pa.Schema) else schema.to_pyarrow()
            text = base64.b64encode(arrow.serialize().to_pybytes()).decode("ascii")
            content = {"overwrite": {"schema": text, "fragments": _fragments(operation.fragments)}}
        case LanceOperation.Update(updated_fragment_offsets=None):
            content = {
                "update": {
                    "removed": list(operation.removed_fragment_ids),
                    "updated": _fragments(operation.updated_fragments),
                    "new": _fragments(operation.new_fragments),
                    "fields_modified": list(operation.fields_modified),
                    "fields_kept": list(operation.fields_for_preserving_frag_bitmap or []),
                    "mode": operation.update_mode,
                }
            }
        case _:
            raise Internal(f"a staged {type(operation).__name__} cannot cross processes")
    return {"read_version": transaction.read_version, "uuid": transaction.uuid, **content}


def from_json(entry: Any) -> Transaction:
    """A staged write from its JSON."""
    try:
        return _read(entry)
    except _DAMAGE as error:
        text = f"this is not a staged write: {type(error).__name__} {error}"
        raise BadRequest(text, hint="stage it again with this release") from None


def _read(entry: Any) -> Transaction:
    match entry:
        case {"append": {"fragments": list(fragments)}}:
            operation: Any = LanceOperation.Append(read_fragments(fragments))
        case {"overwrite": {"schema": str(text), "fragments": list(fragments)}}:
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
            operation = LanceOperation.Overwrite(LanceSchema.from_pyarrow(schema), read_fragments(fragments))
        case {"update": dict()}:
            update: dict[str, Any] = entry["update"]
            operation = LanceOperation.Update(
                removed_fragment_ids=check_wholes(update["removed"], "`removed`"),
                updated_fragments=read_fragments(_listed(update["updated"])),
                new_fragments=read_fragments(_listed(update["new"])),
                fields_modified=check_wholes(update["fields_modified"], "`fields_modified`"),
                fields_for_preserving_frag_bitmap=check_wholes(update["fields_kept"], "`fields_kept`"),
                update_mode=_mode(update["mode"]),
            )
        case _:
            raise BadRequest("this is not a staged write", hint="stage it again with this release")
    if not isinstance(entry["uuid"], str):
        raise ValueError("`uuid` is no text")
    return Transaction(check_whole(entry["read_version"], "`read_version`"), operation, uuid=entry["uuid"])


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("fragments are no list")
    return value


def _mode(value: Any) -> Any:
    if value not in _MODES:
        raise ValueError("`mode` of an update is not known")
    return value


def _fragments(fragments: Any) -> list[Any]:
    return [fragment.to_json() for fragment in fragments]


def read_fragments(entries: Iterable[Any]) -> list[FragmentMetadata]:
    """Fragments from their JSON; ValueError for one that names files which are not its own."""
    return [FragmentMetadata.from_json(json.dumps(_plain(entry))) for entry in entries]


def check_files(entry: Any) -> None:
    """Raise ValueError unless a fragment is one, whose files lie right below the data of its lineage: names become paths."""
    match entry:
        case {"files": list(files)} if files:
            names = [file.get("path") if isinstance(file, dict) else None for file in files]
        case _:
            raise ValueError("a fragment has no files")
    if not all(isinstance(name, str) and FILE_NAME.fullmatch(name) for name in names):
        raise ValueError("it names files that are not its own")
    check_members(entry)


def _plain(entry: Any) -> Any:
    check_files(entry)
    return entry
