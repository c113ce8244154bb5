"""Staged writes as JSON, so that they can cross processes without executing anything on the other side."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
from lance.dataset import LanceOperation, Transaction
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph_sql.errors import BadRequest, Internal


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
    except (KeyError, TypeError, ValueError, AttributeError, OSError, pa.ArrowException) as error:
        text = f"this is not a staged write: {type(error).__name__} {error}"
        raise BadRequest(text, hint="stage it again with this release") from None


def _read(entry: Any) -> Transaction:
    match entry:
        case {"append": {"fragments": list(fragments)}}:
            operation: Any = LanceOperation.Append(_metadata(fragments))
        case {"overwrite": {"schema": str(text), "fragments": list(fragments)}}:
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
            operation = LanceOperation.Overwrite(LanceSchema.from_pyarrow(schema), _metadata(fragments))
        case {"update": dict()}:
            given: dict[str, Any] = entry["update"]
            operation = LanceOperation.Update(
                removed_fragment_ids=given["removed"],
                updated_fragments=_metadata(given["updated"]),
                new_fragments=_metadata(given["new"]),
                fields_modified=given["fields_modified"],
                fields_for_preserving_frag_bitmap=given["fields_kept"],
                update_mode=given["mode"],
            )
        case _:
            raise BadRequest("this is not a staged write", hint="stage it again with this release")
    return Transaction(entry["read_version"], operation, uuid=entry["uuid"])


def _fragments(fragments: Any) -> list[Any]:
    return [fragment.to_json() for fragment in fragments]


def _metadata(entries: list[Any]) -> list[FragmentMetadata]:
    return [FragmentMetadata.from_json(json.dumps(entry)) for entry in entries]
