r"""`\d`: the types of a graph, and everything that is declared about one."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_compiler import Catalog, EdgeType, NodeType, Property
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.cli import output
from omnigraph_sql.cli.tables import TableColumn, count, write_table
from omnigraph_sql.errors import NotFound
from omnigraph_sql.manifest.relations import relations
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.table_keys import TableKey

_TYPES = (TableColumn("kind"), TableColumn("name"), TableColumn("from"), TableColumn("to"), TableColumn("rows", right=True))
_PROPERTIES = (TableColumn("property"), TableColumn("type"), TableColumn("declared"))


def describe_all(catalog: Catalog, snapshot: Snapshot) -> None:
    """A table of the types and relational tables, with their rows."""
    rows = [("node", name, "", "", _rows(snapshot, f"node:{name}")) for name in catalog.nodes]
    rows += [
        ("edge", name, edge.source, edge.target, _rows(snapshot, f"edge:{name}")) for name, edge in catalog.edges.items()
    ]
    rows += [
        ("table", f"{relation.schema}.{relation.name}", "", "", str(relation.row_count))
        for relation in relations(snapshot)
        if relation.kind == "table"
    ]
    write_table(_TYPES, rows)


def describe(name: str, catalog: Catalog, snapshot: Snapshot) -> None:
    """The properties of a type, its keys and constraints, and the edges at its nodes."""
    for number, declared in enumerate(_types_named(name, catalog)):
        output.write("\n" if number else "")
        _describe(declared, catalog, snapshot)


def _describe(declared: NodeType | EdgeType, catalog: Catalog, snapshot: Snapshot) -> None:
    kind = "node" if isinstance(declared, NodeType) else "edge"
    rows = _rows(snapshot, TableKey.of_type(declared))
    output.write_styled([[("bold", f"{_heading(declared)}, {count(int(rows or 0), 'row')}")]])
    if properties := declared.properties.values():
        output.write("\n")
        write_table(
            _PROPERTIES, [(property_.name, str(property_.type), _notes(property_, declared)) for property_ in properties]
        )
    if lines := [*_constraints(declared), *(_edges(declared, catalog) if kind == "node" else ())]:
        output.write("\n" + "".join(f"{line}\n" for line in lines))


def _types_named(name: str, catalog: Catalog) -> list[NodeType | EdgeType]:
    kind, colon, rest = name.partition(":")
    wanted, kinds = (rest, (kind,)) if colon and kind in ("node", "edge") else (name, ("node", "edge"))
    nodes, edges = catalog.nodes, catalog.edges
    declared: list[NodeType | EdgeType] = [*nodes.values()] if "node" in kinds else []
    declared += [*edges.values()] if "edge" in kinds else []
    matching = [type_ for type_ in declared if type_.name == wanted] or [
        type_ for type_ in declared if type_.name.lower() == wanted.lower()
    ]
    if not matching:
        hint = did_you_mean(wanted, [*nodes, *edges]) or "\\d lists the types"
        raise NotFound(f"there is no type `{name}`", what="type", name=name, hint=hint)
    return matching


def _rows(snapshot: Snapshot, key: str) -> str:
    entry = snapshot.entries.get(key)
    return "" if entry is None else str(entry.row_count)


def _heading(declared: NodeType | EdgeType) -> str:
    if isinstance(declared, EdgeType):
        return f"edge {declared.name}: {declared.source} -> {declared.target}"
    interfaces = f" implements {', '.join(declared.interfaces)}" if declared.interfaces else ""
    return f"node {declared.name}{interfaces}"


def _notes(prop: Property, declared: NodeType | EdgeType) -> str:
    notes = ["key"] if isinstance(declared, NodeType) and declared.key == (prop.name,) else []
    notes += ["unique"] if (prop.name,) in declared.unique else []
    notes += ["index"] if (prop.name,) in declared.index else []
    notes += [f"embed of {prop.embed.source}"] if prop.embed is not None else []
    notes += [f"metric {prop.metric}"] if prop.metric is not None else []
    notes += [f"default {prop.default}"] if prop.default is not None else []
    return ", ".join(notes)


def _constraints(declared: NodeType | EdgeType) -> Iterator[str]:
    """Constraints over several properties, ranges and patterns."""
    if isinstance(declared, NodeType):
        if declared.key is not None and len(declared.key) > 1:
            yield f"key ({', '.join(declared.key)})"
        yield from (constraint.display() for constraint in declared.ranges)
        yield from (constraint.display() for constraint in declared.checks)
    elif (declared.cardinality.low, declared.cardinality.high) != (0, None):
        yield declared.cardinality.display()
    yield from (f"unique ({', '.join(columns)})" for columns in declared.unique if len(columns) > 1)
    yield from (f"index ({', '.join(columns)})" for columns in declared.index if len(columns) > 1)


def _edges(declared: NodeType | EdgeType, catalog: Catalog) -> Iterator[str]:
    for edge in catalog.edges.values():
        if declared.name in (edge.source, edge.target):
            yield f"edge {edge.name}: {edge.source} -> {edge.target}"
