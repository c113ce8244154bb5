"""Names of relational tables, views and schemas, and what a snapshot knows about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.manifest.texts import check_name
from omnigraph_sql.table_keys import TableKey

DEFAULT_SCHEMA = "main"
_ENCODED = {"%": "%25", ".": "%2E", "$": "%24"}


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A relational table or view of a snapshot."""

    schema: str
    """Its schema."""
    name: str
    """Its name."""
    kind: Literal["table", "view"]
    """What it is."""
    table_key: str
    """Its key in snapshots: `table:SCHEMA.NAME` or `view:SCHEMA.NAME`."""
    row_count: int | None
    """Of a table."""
    definition: dict[str, Any] | None
    """Of a view: `sql`, `dialect`, `columns` and maybe `comment`."""


def encode(part: str) -> str:
    """A part of a key, with the characters that separate parts percent-encoded."""
    return "".join(_ENCODED.get(char, char) for char in part)


def decode(part: str) -> str:
    if "%" not in part:
        return part
    for char, text in reversed(_ENCODED.items()):
        part = part.replace(text, char)
    return part


def table_key(schema: str, name: str) -> TableKey:
    return TableKey.of("table", qualified(schema, name))


def view_key(schema: str, name: str) -> TableKey:
    return TableKey.of("view", qualified(schema, name))


def schema_key(name: str) -> TableKey:
    _check(name, "schema")
    return TableKey.of("schema", encode(name))


def qualified(schema: str, name: str) -> str:
    """Schema and name as one text, the same for no other pair."""
    _check(schema, "schema")
    _check(name, "table")
    return f"{encode(schema)}.{encode(name)}"


def _check(name: str, what: str) -> None:
    if not check_name(name, f"the name of the {what}") or not name.isprintable():
        raise BadRequest(f"`{name!r}` cannot be the name of a {what}", hint="use visible characters")


def schemas(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """Schemas by name; the default one is always there."""
    by_name: dict[str, dict[str, Any]] = {DEFAULT_SCHEMA: {}}
    for key, defined in snapshot.definitions.items():
        if TableKey(key).kind == "schema" and defined.metadata is not None:
            by_name[decode(TableKey(key).name)] = dict(defined.metadata)
    return dict(sorted(by_name.items()))


def relations(snapshot: Snapshot, schema: str | None = None) -> Iterator[Relation]:
    """Tables and views in the order of their keys, of all schemas or of one."""
    within = "" if schema is None else f"{encode(schema)}."
    tables, views = f"table:{within}", f"view:{within}"
    for key, entry in snapshot.entries.items():
        if key.startswith(tables):
            yield _table(key, entry.row_count)
    for key, defined in sorted(snapshot.definitions.items()):
        if key.startswith(views) and defined.metadata is not None:
            yield _view(key, defined.metadata)


def relation(snapshot: Snapshot, schema: str, name: str) -> Relation | None:
    """A table or view by name."""
    key = table_key(schema, name)
    entry = snapshot.entries.get(key)
    if entry is not None:
        return _table(key, entry.row_count)
    key = view_key(schema, name)
    defined = snapshot.definitions.get(key)
    return None if defined is None or defined.metadata is None else _view(key, defined.metadata)


def _table(key: str, row_count: int) -> Relation:
    schema, name = _parts(key)
    return Relation(schema=schema, name=name, kind="table", table_key=key, row_count=row_count, definition=None)


def _view(key: str, definition: Mapping[str, Any]) -> Relation:
    schema, name = _parts(key)
    return Relation(schema=schema, name=name, kind="view", table_key=key, row_count=None, definition=dict(definition))


def _parts(key: str) -> tuple[str, str]:
    """The schema and the name in a key."""
    schema, _, name = key.partition(":")[2].partition(".")
    return decode(schema), decode(name)
