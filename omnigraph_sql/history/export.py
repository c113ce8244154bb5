"""Export: a snapshot as load records, one JSON text each, in a fixed order.

Types come by name, nodes before edges, rows by id. Loading an export into an empty graph of the same schema reproduces it.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from omnigraph_compiler import Catalog, EdgeType, NodeType, PropType
from omnigraph_sql.errors import NotFound
from omnigraph_sql.history.bundles import BundleHeader
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.filters import member_filter
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.table_keys import TableKey

_BATCH_ROWS = 4096


def export_records(
    storage: TableStorage, catalog: Catalog, snapshot: Snapshot, types: Iterable[str] | None = None
) -> Iterator[str]:
    """Yield the rows of a snapshot as JSON texts; `types` names the node and edge types to export."""
    for type_ in _selected_types(catalog, types):
        entry = snapshot.entries.get(TableKey.of_type(type_))
        if entry is None:
            continue
        handle = storage.open(entry)
        for batch in storage.scan(handle, order_by="id", batch_rows=_BATCH_ROWS):
            for row in batch.to_pylist():
                yield json.dumps(load_record(type_, row), ensure_ascii=False, separators=(",", ":"))


def bundle_header(catalog: Catalog, snapshot: Snapshot, schema: str, types: Iterable[str] | None = None) -> BundleHeader:
    """Return the first line of a bundle, for the records that `export_records` yields with the same arguments."""
    selected = [TableKey.of_type(type_) for type_ in _selected_types(catalog, types)]
    relations = [key for key in snapshot.entries if TableKey(key).kind == "table"]
    relations += [key for key in snapshot.definitions if snapshot.defined(key) is not None]
    return BundleHeader(
        schema=schema,
        rows={key: snapshot.entries[key].row_count for key in selected if key in snapshot.entries},
        commit_id=snapshot.commit_id,
        omits=tuple(sorted(relations)),
    )


def entity_at(
    storage: TableStorage, catalog: Catalog, snapshot: Snapshot, table_key: str, entity_id: str
) -> dict[str, Any] | None:
    """Return one entity of a snapshot as a load record, or None. Reads no other row."""
    key = TableKey(table_key)
    types: Mapping[str, NodeType | EdgeType] = catalog.edges if key.is_edge else catalog.nodes
    if key.name not in types or not (key.is_node or key.is_edge):
        hint = "name it `node:T` or `edge:E`"
        raise NotFound(f"there is no table `{table_key}`", what="type", name=table_key, hint=hint)
    entry = snapshot.entries.get(table_key)
    if entry is None:
        return None
    handle = storage.open(entry)
    rows = storage.scan(handle, None, member_filter("id", pa.array([entity_id])), limit=1).read_all().to_pylist()
    return load_record(types[key.name], rows[0]) if rows else None


def _selected_types(catalog: Catalog, types: Iterable[str] | None) -> list[NodeType | EdgeType]:
    nodes = [catalog.nodes[name] for name in sorted(catalog.nodes)]
    edges = [catalog.edges[name] for name in sorted(catalog.edges)]
    if types is None:
        return [*nodes, *edges]
    wanted = set(types)
    for name in wanted:
        if name not in catalog.nodes and name not in catalog.edges:
            raise NotFound(f"there is no type `{name}`", what="type", name=name)
    every: list[NodeType | EdgeType] = [*nodes, *edges]
    return [type_ for type_ in every if type_.name in wanted]


def load_record(type_: NodeType | EdgeType, row: dict[str, Any]) -> dict[str, Any]:
    """A row as the record that a load reads."""
    data = {"id": row["id"]}
    for name, prop in type_.properties.items():
        # A null is omitted, unless a load would then fill in the default.
        if row[name] is not None or prop.default is not None:
            data[name] = _value(prop.type, row[name])
    if isinstance(type_, EdgeType):
        return {"edge": type_.name, "from": row["src"], "to": row["dst"], "data": data}
    return {"type": type_.name, "data": data}


def _value(type_: PropType, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(type_, item) for item in value]
    if isinstance(value, bytes):
        return "base64:" + base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime.datetime):
        text = value.astimezone(datetime.UTC).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value
