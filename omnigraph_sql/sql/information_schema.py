"""The tables of `information_schema`: the schemas, tables, columns and keys of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_compiler.schema.catalog import Annotation
from omnigraph_sql.manifest.table_rules import TableConstraint, TableRules
from omnigraph_sql.sql.refs import SchemaRef
from omnigraph_sql.sql.resolver import NameResolver, ResolvedTable

SCHEMA = "information_schema"


@dataclass(frozen=True)
class TableKeys:
    """A key of a table: its columns and, for a foreign key, the referenced table and its columns."""

    name: str
    kind: str
    columns: tuple[str, ...]
    refers_to: str | None = None
    referenced_columns: tuple[str, ...] = ("id",)

    @property
    def referenced_key(self) -> str:
        """The name of the key that a foreign key refers to."""
        return f"{self.refers_to}_pkey"


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


def relational_keys(rules: TableRules) -> Iterator[TableKeys]:
    """Yield the keys that a relational table declares."""
    for constraint in rules.constraints:
        if constraint.kind != "check":
            refers_to = constraint.references[-1] if constraint.references else None
            yield TableKeys(
                constraint.name, constraint.kind.upper(), constraint.columns, refers_to, constraint.referenced_columns
            )


def _referenced_column(key: TableKeys, number: int) -> str | None:
    """Return the column that a column of a foreign key refers to, if the declaration names it."""
    is_named = key.refers_to is not None and number <= len(key.referenced_columns)
    return key.referenced_columns[number - 1] if is_named else None


def keys_table(resolver: NameResolver, place: SchemaRef) -> pa.Table:
    """Return the keys of all types and tables in a schema, with a row for each column."""
    rows = [
        {
            "table_name": table.name,
            "constraint_name": key.name,
            "constraint_type": key.kind,
            "column_name": column,
            "ordinal_position": number,
            "referenced_table": key.refers_to,
            "referenced_column": _referenced_column(key, number),
        }
        for table in resolver.tables(place).values()
        for key in (relational_keys(resolver.rules(table)) if table.type is None else keys_of(table.type))
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
            yield location | {
                "table_type": "VIEW" if table.kind == "view" else "BASE TABLE",
                "table_comment": self._comment(table),
            }

    def _comment(self, table: ResolvedTable) -> str | None:
        if table.type is not None:
            return _description(table.type.annotations)
        if table.relation is not None and table.relation.definition is not None:
            return table.relation.definition.get("comment")
        return self._resolver.rules(table).comment

    def views(self) -> Iterator[Mapping[str, object]]:
        for location, table in self._all_tables():
            if table.relation is not None and table.relation.definition is not None:
                yield location | {"definition": table.relation.definition["sql"]}

    def columns(self) -> Iterator[Mapping[str, object]]:
        for location, table in self._all_tables():
            rules, properties = self._resolver.rules(table), {} if table.type is None else table.type.properties
            for number, (name, kind, nullable) in enumerate(_columns(self._resolver, table), 1):
                default, described = rules.defaults.get(name), properties.get(name)
                yield location | {
                    "column_name": name,
                    "ordinal_position": number,
                    "column_default": None if default is None else default.sql,
                    "is_nullable": "YES" if nullable else "NO",
                    "data_type": kind,
                    "column_comment": rules.column_comments.get(name)
                    if described is None
                    else _description(described.annotations),
                }

    def constraints(self) -> Iterator[Mapping[str, object]]:
        for location, _, key in self._keys():
            yield location | self._constraint(location, key.name) | {"constraint_type": key.kind}
        for location, check in self._checks():
            yield location | self._constraint(location, check.name) | {"constraint_type": "CHECK"}

    def checks(self) -> Iterator[Mapping[str, object]]:
        for location, constraint in self._checks():
            clause = "" if constraint.check is None else constraint.check.sql
            yield self._constraint(location, constraint.name) | {"check_clause": clause}

    def _checks(self) -> Iterator[tuple[dict[str, str], TableConstraint]]:
        for location, table in self._all_tables():
            for constraint in self._resolver.rules(table).checks():
                yield location, constraint

    def key_columns(self) -> Iterator[Mapping[str, object]]:
        for location, _, key in self._keys():
            for number, column in enumerate(key.columns, 1):
                place = number if key.refers_to is not None else None
                yield (
                    location
                    | self._constraint(location, key.name)
                    | {
                        "column_name": column,
                        "ordinal_position": number,
                        "position_in_unique_constraint": place,
                    }
                )

    def references(self) -> Iterator[Mapping[str, object]]:
        for location, table, key in self._keys():
            if key.refers_to is not None:
                is_type = table.type is not None
                yield self._constraint(location, key.name) | {
                    "unique_constraint_catalog": self._catalog,
                    "unique_constraint_schema": location["table_schema"],
                    "unique_constraint_name": key.referenced_key,
                    "match_option": "NONE",
                    "update_rule": "NO ACTION",
                    "delete_rule": "CASCADE" if is_type else "NO ACTION",
                }

    def _keys(self) -> Iterator[tuple[dict[str, str], ResolvedTable, TableKeys]]:
        for location, table in self._all_tables():
            keys = relational_keys(self._resolver.rules(table)) if table.type is None else keys_of(table.type)
            for key in keys:
                yield location, table, key

    def _constraint(self, location: Mapping[str, str], name: str) -> dict[str, object]:
        return {
            "constraint_catalog": self._catalog,
            "constraint_schema": location["table_schema"],
            "constraint_name": name,
        }


def _description(annotations: Iterable[Annotation]) -> str | None:
    """Return the text of `@description`."""
    texts = (annotation.value for annotation in annotations if annotation.name == "description")
    return next((text for text in texts if isinstance(text, str)), None)


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
_COLUMN = dict.fromkeys(("column_default", "is_nullable", "data_type", "column_comment"), pa.string())
_UNIQUE = {f"unique_{name}": kind for name, kind in _CONSTRAINT.items()}
_RULES = {"match_option": pa.string(), "update_rule": pa.string(), "delete_rule": pa.string()}

_TABLES: dict[str, tuple[dict[str, pa.DataType], Callable[[InformationTables], Iterator[Mapping[str, object]]]]] = {
    "schemata": ({"catalog_name": pa.string(), "schema_name": pa.string()}, InformationTables.schemata),
    "tables": (_TABLE | {"table_type": pa.string(), "table_comment": pa.string()}, InformationTables.tables),
    "views": (_TABLE | {"definition": pa.string()}, InformationTables.views),
    "columns": (_TABLE | _PLACES | _COLUMN, InformationTables.columns),
    "table_constraints": (_CONSTRAINT | _TABLE | {"constraint_type": pa.string()}, InformationTables.constraints),
    "check_constraints": (_CONSTRAINT | {"check_clause": pa.string()}, InformationTables.checks),
    "key_column_usage": (
        _CONSTRAINT | _TABLE | _PLACES | {"position_in_unique_constraint": pa.int64()},
        InformationTables.key_columns,
    ),
    "referential_constraints": (_CONSTRAINT | _UNIQUE | _RULES, InformationTables.references),
}
