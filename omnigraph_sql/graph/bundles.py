"""Bundles as `Graph` writes and reads them: a schema, and the records of a graph that has it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from omnigraph_compiler import Catalog
from omnigraph_sql.errors import BadRequest, Conflict, OmittedRelationsWarning
from omnigraph_sql.history.bundles import BundleHeader, is_header, read_header
from omnigraph_sql.history.export import bundle_header
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.writes.readers.model import Counted, Faults
from omnigraph_sql.writes.readers.records import DEFAULT_LIMITS
from omnigraph_sql.writes.readers.sources import blocks, record_source, source_name

_BLOCK: Final = 4 << 20
_SHOWN: Final = 5


@dataclass(frozen=True)
class Bundle:
    """A bundle whose header was read."""

    schema: str
    """The text of the schema."""
    lines: Iterator[bytes]
    """All of its lines, the header included, in portions."""


def open_bundle(source: Any) -> Bundle:
    """Read the header of a bundle, from whatever records can be read from."""
    origin = record_source(source)
    faults = Faults(source_name(origin), Counted("line"), None)
    portions = blocks(origin, _BLOCK, DEFAULT_LIMITS, faults)
    first = next(portions, None)
    if first is None or not is_header(first.data):
        text = "this is no bundle: its first line has no schema"
        raise BadRequest(text, hint="write one with `export(with_schema=True)`, or create the graph of a schema and load it")
    header = read_header(first.data[: first.data.index(b"\n")])
    return Bundle(header.schema, chain([first.data], (block.data for block in portions)))


def bundle(
    catalog: Catalog, snapshot: Snapshot, schema: str, records: Iterator[str], types: Sequence[str] | None
) -> Iterator[str]:
    """Records with the header before them. Warns of relational tables and views, which are not among them."""
    header = bundle_header(catalog, snapshot, schema, types)
    if header.omits:
        text = f"the bundle has the types of the graph only, and leaves out {', '.join(header.omits)}"
        warnings.warn(text, OmittedRelationsWarning, stacklevel=4)
    return chain([header.to_json()], records)


def require_same_schema(header: BundleHeader, schema: str, catalog: Catalog) -> None:
    """Raise `Conflict` unless the schema of a bundle is that of the graph, apart from descriptions."""
    if header.schema == schema:
        return
    differences = _differences(header.schema, catalog)
    if differences:
        more = f", and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        text = f"the bundle has another schema than the graph: {'; '.join(differences[:_SHOWN])}{more}"
        hint = "load it into a new graph: `init` with the bundle makes one"
        raise Conflict(text, reason="schema differs", hint=hint)


def _differences(schema: str, catalog: Catalog) -> list[str]:
    """The steps that lead from the schema of the graph to that of the bundle."""
    from omnigraph_compiler import CompileError, compile_schema, plan_migration
    from omnigraph_compiler.schema.steps import UpdatePropertyMetadata, UpdateTypeMetadata, step_line

    try:
        other = compile_schema(schema)
        if other.schema_hash == catalog.schema_hash:
            return []
        plan = plan_migration(catalog, other)
    except CompileError as error:
        return [error.message]
    return [step_line(step) for step in plan.steps if not isinstance(step, UpdateTypeMetadata | UpdatePropertyMetadata)]
