"""What there is in a graph, as the tables of `information_schema`: schemas, tables, columns, and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.engines.sql.names import Place
from omnigraph_sql.engines.sql.pins import Pins, Shown

SCHEMA = "information_schema"


@dataclass(frozen=True)
class Key:
    """A key of a table: its columns and, of a foreign key, whose ids they are."""

    name: str
    kind: str
    columns: tuple[str, ...]
    refers_to: str | None = None


def keys_of(type_: NodeType | EdgeType) -> Iterator[Key]:
    """The keys of a type: ids, what is declared to be unique, and the ends of edges."""
    yield Key(f"{type_.name}_pkey", "PRIMARY KEY", ("id",))
    declared = [*type_.unique]
    if isinstance(type_, NodeType) and type_.key:
        declared.insert(0, type_.key)
    for columns in dict.fromkeys(declared):
        yield Key(f"{type_.name}_{'_'.join(columns)}_key", "UNIQUE", tuple(columns))
    if isinstance(type_, EdgeType):
        for column, end in (("src", type_.source), ("dst", type_.target)):
            yield Key(f"{type_.name}_{column}_fkey", "FOREIGN KEY", (column,), end)


def keys_table(pins: Pins, place: Place) -> pa.Table:
    """The keys of all types that a place shows, a row for each column."""
    rows = [
        {
            "table_name": shown.name,
            "constraint_name": key.name,
            "constraint_type": key.kind,
            "column_name": column,
            "ordinal_position": number,
            "referenced_table": key.refers_to,
            "referenced_column": None if key.refers_to is None else "id",
        }
        for shown in pins.tables(place).values()
        if shown.type is not None
        for key in keys_of(shown.type)
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


class Information:
    """The tables of `information_schema`. Nothing is opened for them but relational tables, whose columns only they know."""

    def __init__(self, catalog: str, pins: Pins) -> None:
        self._catalog = catalog
        self._pins = pins

    @property
    def names(self) -> list[str]:
        """The names of the tables."""
        return sorted(_TABLES)

    def table(self, name: str) -> pa.Table:
        """One of the tables."""
        columns, rows = _TABLES[name]
        return pa.Table.from_pylist(list(rows(self)), pa.schema([pa.field(*each) for each in columns.items()]))

    def _places(self) -> Iterator[tuple[str, Place]]:
        for name in self._pins.schema_names():
            yield name, self._pins.place(name)

    def _shown(self) -> Iterator[tuple[dict[str, str], Shown]]:
        for name, place in self._places():
            for shown in self._pins.tables(place).values():
                yield {"table_catalog": self._catalog, "table_schema": name, "table_name": shown.name}, shown

    def schemata(self) -> Iterator[Mapping[str, object]]:
        names = [*(name for name, _ in self._places()), SCHEMA]
        return ({"catalog_name": self._catalog, "schema_name": name} for name in names)

    def tables(self) -> Iterator[Mapping[str, object]]:
        for where, shown in self._shown():
            yield where | {"table_type": "VIEW" if shown.kind == "view" else "BASE TABLE"}

    def views(self) -> Iterator[Mapping[str, object]]:
        for where, shown in self._shown():
            if shown.relation is not None and shown.relation.definition is not None:
                yield where | {"definition": shown.relation.definition["sql"]}

    def columns(self) -> Iterator[Mapping[str, object]]:
        for where, shown in self._shown():
            for number, (name, kind, nullable) in enumerate(_columns(self._pins, shown), 1):
                yield where | {
                    "column_name": name,
                    "ordinal_position": number,
                    "is_nullable": "YES" if nullable else "NO",
                    "data_type": kind,
                }

    def constraints(self) -> Iterator[Mapping[str, object]]:
        for where, _, key in self._keys():
            yield where | self._constraint(where, key) | {"constraint_type": key.kind}

    def key_columns(self) -> Iterator[Mapping[str, object]]:
        for where, _, key in self._keys():
            for number, column in enumerate(key.columns, 1):
                place = number if key.refers_to is not None else None
                yield (
                    where
                    | self._constraint(where, key)
                    | {
                        "column_name": column,
                        "ordinal_position": number,
                        "position_in_unique_constraint": place,
                    }
                )

    def references(self) -> Iterator[Mapping[str, object]]:
        for where, _, key in self._keys():
            if key.refers_to is not None:
                yield self._constraint(where, key) | {
                    "unique_constraint_catalog": self._catalog,
                    "unique_constraint_schema": where["table_schema"],
                    "unique_constraint_name": f"{key.refers_to}_pkey",
                    "match_option": "NONE",
                    "update_rule": "NO ACTION",
                    "delete_rule": "CASCADE",
                }

    def _keys(self) -> Iterator[tuple[dict[str, str], Shown, Key]]:
        for where, shown in self._shown():
            if shown.type is not None:
                for key in keys_of(shown.type):
                    yield where, shown, key

    def _constraint(self, where: Mapping[str, str], key: Key) -> dict[str, object]:
        return {
            "constraint_catalog": self._catalog,
            "constraint_schema": where["table_schema"],
            "constraint_name": key.name,
        }


def _columns(pins: Pins, shown: Shown) -> Iterator[tuple[str, str, bool]]:
    if shown.kind == "view":
        assert shown.relation is not None
        assert shown.relation.definition is not None
        yield from ((name, "unknown", True) for name in shown.relation.definition["columns"])
        return
    for field in pins.columns(shown):
        yield field.name, str(field.type), field.nullable


_TABLE = {"table_catalog": pa.string(), "table_schema": pa.string(), "table_name": pa.string()}
_CONSTRAINT = {"constraint_catalog": pa.string(), "constraint_schema": pa.string(), "constraint_name": pa.string()}
_PLACES = {"column_name": pa.string(), "ordinal_position": pa.int64()}
_UNIQUE = {f"unique_{name}": kind for name, kind in _CONSTRAINT.items()}
_RULES = {"match_option": pa.string(), "update_rule": pa.string(), "delete_rule": pa.string()}

_TABLES: dict[str, tuple[dict[str, pa.DataType], Callable[[Information], Iterator[Mapping[str, object]]]]] = {
    "schemata": ({"catalog_name": pa.string(), "schema_name": pa.string()}, Information.schemata),
    "tables": (_TABLE | {"table_type": pa.string()}, Information.tables),
    "views": (_TABLE | {"definition": pa.string()}, Information.views),
    "columns": (_TABLE | _PLACES | {"is_nullable": pa.string(), "data_type": pa.string()}, Information.columns),
    "table_constraints": (_CONSTRAINT | _TABLE | {"constraint_type": pa.string()}, Information.constraints),
    "key_column_usage": (
        _CONSTRAINT | _TABLE | _PLACES | {"position_in_unique_constraint": pa.int64()},
        Information.key_columns,
    ),
    "referential_constraints": (_CONSTRAINT | _UNIQUE | _RULES, Information.references),
}
