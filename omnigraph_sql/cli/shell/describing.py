r"""`\d`: the types of a graph, and everything that is declared about one."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_compiler import Catalog, EdgeType, NodeType, Property
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.cli import output
from omnigraph_sql.cli.tabulating import Column, count, write_table
from omnigraph_sql.errors import NotFound
from omnigraph_sql.manifest.relations import relations
from omnigraph_sql.manifest.snapshot import Snapshot

_TYPES = (Column("kind"), Column("name"), Column("from"), Column("to"), Column("rows", right=True))
_PROPERTIES = (Column("property"), Column("type"), Column("declared"))


def describe_all(catalog: Catalog, snapshot: Snapshot) -> None:
    """A table of the types and relational tables, with their rows."""
    rows = [("node", name, "", "", _rows(snapshot, f"node:{name}")) for name in catalog.nodes]
    rows += [
        ("edge", name, edge.source, edge.target, _rows(snapshot, f"edge:{name}")) for name, edge in catalog.edges.items()
    ]
    rows += [
        ("table", f"{each.schema}.{each.name}", "", "", str(each.row_count))
        for each in relations(snapshot)
        if each.kind == "table"
    ]
    write_table(_TYPES, rows)


def describe(name: str, catalog: Catalog, snapshot: Snapshot) -> None:
    """The properties of a type, its keys and constraints, and the edges at its nodes."""
    for number, declared in enumerate(_found(name, catalog)):
        output.write("\n" if number else "")
        _describe(declared, catalog, snapshot)


def _describe(declared: NodeType | EdgeType, catalog: Catalog, snapshot: Snapshot) -> None:
    kind = "node" if isinstance(declared, NodeType) else "edge"
    rows = _rows(snapshot, f"{kind}:{declared.name}")
    output.write_styled([[("bold", f"{_heading(declared)}, {count(int(rows or 0), 'row')}")]])
    if properties := declared.properties.values():
        output.write("\n")
        write_table(_PROPERTIES, [(each.name, str(each.type), _notes(each, declared)) for each in properties])
    if lines := [*_constraints(declared), *(_edges(declared, catalog) if kind == "node" else ())]:
        output.write("\n" + "".join(f"{line}\n" for line in lines))


def _found(name: str, catalog: Catalog) -> list[NodeType | EdgeType]:
    kind, colon, rest = name.partition(":")
    wanted, kinds = (rest, (kind,)) if colon and kind in ("node", "edge") else (name, ("node", "edge"))
    nodes, edges = catalog.nodes, catalog.edges
    declared: list[NodeType | EdgeType] = [*nodes.values()] if "node" in kinds else []
    declared += [*edges.values()] if "edge" in kinds else []
    found = [each for each in declared if each.name == wanted] or [
        each for each in declared if each.name.lower() == wanted.lower()
    ]
    if not found:
        hint = did_you_mean(wanted, [*nodes, *edges]) or "\\d lists the types"
        raise NotFound(f"there is no type `{name}`", what="type", name=name, hint=hint)
    return found


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
    """What is about several properties, or needs more than a word."""
    if isinstance(declared, NodeType):
        if declared.key is not None and len(declared.key) > 1:
            yield f"key ({', '.join(declared.key)})"
        yield from (each.display() for each in declared.ranges)
        yield from (each.display() for each in declared.checks)
    elif (declared.cardinality.low, declared.cardinality.high) != (0, None):
        yield declared.cardinality.display()
    yield from (f"unique ({', '.join(columns)})" for columns in declared.unique if len(columns) > 1)
    yield from (f"index ({', '.join(columns)})" for columns in declared.index if len(columns) > 1)


def _edges(declared: NodeType | EdgeType, catalog: Catalog) -> Iterator[str]:
    for edge in catalog.edges.values():
        if declared.name in (edge.source, edge.target):
            yield f"edge {edge.name}: {edge.source} -> {edge.target}"
