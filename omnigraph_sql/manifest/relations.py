"""Names of relational tables, views and schemas, and what a snapshot knows about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.snapshot import Snapshot

DEFAULT_SCHEMA = "main"
_ENCODED = {"%": "%25", ".": "%2E", "$": "%24"}


@dataclass(frozen=True)
class Relation:
    """A relational table or view of a snapshot."""

    schema: str
    name: str
    kind: Literal["table", "view"]
    table_key: str
    row_count: int | None
    """Of a table."""
    definition: dict[str, Any] | None
    """Of a view: `sql`, `dialect`, `columns` and maybe `comment`."""


def encode(part: str) -> str:
    """A part of a key: what would be taken for punctuation is percent-encoded."""
    return "".join(_ENCODED.get(char, char) for char in part)


def decode(part: str) -> str:
    for char, text in reversed(_ENCODED.items()):
        part = part.replace(text, char)
    return part


def table_key(schema: str, name: str) -> str:
    return f"table:{qualified(schema, name)}"


def view_key(schema: str, name: str) -> str:
    return f"view:{qualified(schema, name)}"


def schema_key(name: str) -> str:
    _check(name, "schema")
    return f"schema:{encode(name)}"


def qualified(schema: str, name: str) -> str:
    """Schema and name as one text, the same for no other pair."""
    _check(schema, "schema")
    _check(name, "table")
    return f"{encode(schema)}.{encode(name)}"


def _check(name: str, what: str) -> None:
    if not name or not name.isprintable():
        raise BadRequest(f"`{name!r}` cannot be the name of a {what}", hint="use visible characters")


def schemas(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """Schemas by name; the default one is always there."""
    found: dict[str, dict[str, Any]] = {DEFAULT_SCHEMA: {}}
    for key, defined in snapshot.definitions.items():
        kind, _, name = key.partition(":")
        if kind == "schema" and defined.metadata is not None:
            found[decode(name)] = dict(defined.metadata)
    return dict(sorted(found.items()))


def relations(snapshot: Snapshot) -> Iterator[Relation]:
    """Tables and views in the order of their keys."""
    for key, entry in snapshot.entries.items():
        if key.startswith("table:"):
            schema, _, name = key.removeprefix("table:").partition(".")
            yield Relation(decode(schema), decode(name), "table", key, entry.row_count, None)
    for key, defined in sorted(snapshot.definitions.items()):
        if key.startswith("view:") and defined.metadata is not None:
            schema, _, name = key.removeprefix("view:").partition(".")
            yield Relation(decode(schema), decode(name), "view", key, None, dict(defined.metadata))


def relation(snapshot: Snapshot, schema: str, name: str) -> Relation | None:
    """A table or view by name."""
    keys = (table_key(schema, name), view_key(schema, name))
    return next((each for each in relations(snapshot) if each.table_key in keys), None)
