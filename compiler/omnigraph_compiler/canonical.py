"""Canonical JSON: one spelling per value, so that a hash of it is stable across processes and releases."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any


def canonical_json(value: object) -> str:
    """Return compact JSON with sorted keys and no escapes beyond the necessary ones."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def stable_hash(value: object) -> str:
    """Return the SHA-256 of the canonical JSON, in lower-case hex."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def tagged(value: Any) -> Any:
    """Convert frozen dataclasses to JSON objects tagged with their class name; members that are None are omitted."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = getattr(value, "to_json", None)
        if own is not None:
            return own()
        entry: dict[str, Any] = {"kind": type(value).__name__}
        for field in dataclasses.fields(value):
            member = getattr(value, field.name)
            if member is not None:
                entry[field.name] = tagged(member)
        return entry
    if isinstance(value, tuple):
        return [tagged(member) for member in value]
    if isinstance(value, str):
        return str(value)
    return value
