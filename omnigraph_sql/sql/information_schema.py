"""The tables of `information_schema`: the schemas, tables, columns and keys of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.sql.refs import SchemaRef
from omnigraph_sql.sql.resolver import NameResolver, ResolvedTable

SCHEMA = "information_schema"


@dataclass(frozen=True)
class TableKeys:
    """A key of a table: its columns and, for a foreign key, the referenced type."""

    name: str
    kind: str
    columns: tuple[str, ...]
    refers_to: str | None = None


def keys_of(type_: NodeType | EdgeType) -> Iterator[TableKeys]:
    """Yield the keys of a type: the id, declared unique columns, and the ends of an edge."""
    yield TableKeys(f"{type_.name}_pkey", "PRIMARY KEY", ("id",))
    declared = [*type_.unique]
    if isinstance(type_, NodeType) and type_.key:
        declared.insert(0, type_.key)
    for columns in dict.fromkeys(declared):
        yield TableKeys(f"{type_.name}_{'_'.join(columns)}_key", "UNIQUE", tuple(columns))
    if isinstance(type_, EdgeType):
        for column, end in (("src", type_.source), ("dst", type_.target)):
            yield TableKeys(f"{type_.name}_{column}_fkey", "FOREIGN KEY", (column,), end)


def keys_table(resolver: NameResolver, place: SchemaRef) -> pa.Table:
    """Return the keys of all types in a schema, with a row for each column."""
    rows = [
        {
            "table_name": table.name,
            "constraint_name": key.name,
            "constraint_type": key.kind,
            "column_name": column,
            "ordinal_position": number,
            "referenced_table": key.refers_to,
            "referenced_column": None if key.refers_to is None else "id",
        }
        for table in resolver.tables(place).values()
        if table.type is not None
        for key in keys_of(table.type)
        for number, column in enumerate(key.columns, 1)
    ]
    return pa.Table.from_pylist(rows, KEYS)


KEYS = pa.schema(
    [
        pa.field("table_name", pa.string()),
        pa.field("constraint_name", pa.string()),
        pa.field("constraint_type", pa.string()),
        pa.field("column_name", pa.string()),
        pa.field("ordinal_position", pa.int64()),
        pa.field("referenced_table", pa.string()),
        pa.field("referenced_column", pa.string()),
    ]
)


class InformationTables:
    """The tables of `information_schema`. Only relational tables are opened, because only they know their columns."""

    def __init__(self, catalog: str, resolver: NameResolver) -> None:
        self._catalog = catalog
        self._resolver = resolver

    @property
    def names(self) -> list[str]:
        """The names of the tables."""
        return sorted(_TABLES)

    def table(self, name: str) -> pa.Table:
        """Return a table by its name."""
        columns, rows = _TABLES[name]
        return pa.Table.from_pylist(list(rows(self)), pa.schema([pa.field(*column) for column in columns.items()]))

    def _places(self) -> Iterator[tuple[str, SchemaRef]]:
        for name in self._resolver.schema_names():
            yield name, self._resolver.place(name)

    def _all_tables(self) -> Iterator[tuple[dict[str, str], ResolvedTable]]:
        for name, place in self._places():
            for table in self._resolver.tables(place).values():
                yield {"table_catalog": self._catalog, "table_schema": name, "table_name": table.name}, table

    def schemata(self) -> Iterator[Mapping[str, object]]:
        names = [*(name for name, _ in self._places()), SCHEMA]
        return ({"catalog_name": self._catalog, "schema_name": name} for name in names)

    def tables(self) -> Iterator[Mapping[str, object]]:
        for location, table in self._all_tables():
            yield location | {"table_type": "VIEW" if table.kind == "view" else "BASE TABLE"}

    def views(self) -> Iterator[Mapping[str, object]]:
        for location, table in self._all_tables():
            if table.relation is not None and table.relation.definition is not None:
                yield location | {"definition": table.relation.definition["sql"]}

    def columns(self) -> Iterator[Mapping[str, object]]:
        for location, table in self._all_tables():
            for number, (name, kind, nullable) in enumerate(_columns(self._resolver, table), 1):
                yield location | {
                    "column_name": name,
                    "ordinal_position": number,
                    "is_nullable": "YES" if nullable else "NO",
                    "data_type": kind,
                }

    def constraints(self) -> Iterator[Mapping[str, object]]:
        for location, _, key in self._keys():
            yield location | self._constraint(location, key) | {"constraint_type": key.kind}

    def key_columns(self) -> Iterator[Mapping[str, object]]:
        for location, _, key in self._keys():
            for number, column in enumerate(key.columns, 1):
                place = number if key.refers_to is not None else None
                yield (
                    location
                    | self._constraint(location, key)
                    | {
                        "column_name": column,
                        "ordinal_position": number,
                        "position_in_unique_constraint": place,
                    }
                )

    def references(self) -> Iterator[Mapping[str, object]]:
        for location, _, key in self._keys():
            if key.refers_to is not None:
                yield self._constraint(location, key) | {
                    "unique_constraint_catalog": self._catalog,
                    "unique_constraint_schema": location["table_schema"],
                    "unique_constraint_name": f"{key.refers_to}_pkey",
                    "match_option": "NONE",
                    "update_rule": "NO ACTION",
                    "delete_rule": "CASCADE",
                }

    def _keys(self) -> Iterator[tuple[dict[str, str], ResolvedTable, TableKeys]]:
        for location, table in self._all_tables():
            if table.type is not None:
                for key in keys_of(table.type):
                    yield location, table, key

    def _constraint(self, location: Mapping[str, str], key: TableKeys) -> dict[str, object]:
        return {
            "constraint_catalog": self._catalog,
            "constraint_schema": location["table_schema"],
            "constraint_name": key.name,
        }


def _columns(resolver: NameResolver, table: ResolvedTable) -> Iterator[tuple[str, str, bool]]:
    if table.kind == "view":
        assert table.relation is not None
        assert table.relation.definition is not None
        yield from ((name, "unknown", True) for name in table.relation.definition["columns"])
        return
    for field in resolver.columns(table):
        yield field.name, str(field.type), field.nullable


_TABLE = {"table_catalog": pa.string(), "table_schema": pa.string(), "table_name": pa.string()}
_CONSTRAINT = {"constraint_catalog": pa.string(), "constraint_schema": pa.string(), "constraint_name": pa.string()}
_PLACES = {"column_name": pa.string(), "ordinal_position": pa.int64()}
_UNIQUE = {f"unique_{name}": kind for name, kind in _CONSTRAINT.items()}
_RULES = {"match_option": pa.string(), "update_rule": pa.string(), "delete_rule": pa.string()}

_TABLES: dict[str, tuple[dict[str, pa.DataType], Callable[[InformationTables], Iterator[Mapping[str, object]]]]] = {
    "schemata": ({"catalog_name": pa.string(), "schema_name": pa.string()}, InformationTables.schemata),
    "tables": (_TABLE | {"table_type": pa.string()}, InformationTables.tables),
    "views": (_TABLE | {"definition": pa.string()}, InformationTables.views),
    "columns": (_TABLE | _PLACES | {"is_nullable": pa.string(), "data_type": pa.string()}, InformationTables.columns),
    "table_constraints": (_CONSTRAINT | _TABLE | {"constraint_type": pa.string()}, InformationTables.constraints),
    "key_column_usage": (
        _CONSTRAINT | _TABLE | _PLACES | {"position_in_unique_constraint": pa.int64()},
        InformationTables.key_columns,
    ),
    "referential_constraints": (_CONSTRAINT | _UNIQUE | _RULES, InformationTables.references),
}
