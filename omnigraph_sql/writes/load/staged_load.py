"""Staged loads and their JSON format.

The text of a staged load crosses processes, so it may come back as anything. Here it is taken apart member by member: what
it names is of its kind, and every file is one of its own. Whether the files hold what the graph allows is looked at when the
load is published (`writes/load/staged_checks.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.texts import check_name
from omnigraph_sql.storage.handles import StagedHandle
from omnigraph_sql.storage.table_names import table_path
from omnigraph_sql.store.graph_store import STAGED
from omnigraph_sql.store.json_fields import (
    Fields,
    branch_name,
    distinct,
    listed,
    one_of,
    optional,
    pair,
    parse,
    short_text,
    table_branch,
    table_key,
    text,
    whole,
)
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.checks.pending_graph import TableRows
from omnigraph_sql.writes.load.loads import MODES
from omnigraph_sql.writes.operation import Append, Merge, Overwrite, Provenance

FORMAT: Final = 4
KINDS: Final = {"append": ("append",), "merge": ("merge", "rows"), "overwrite": ("overwrite",)}
"""The kinds of handles that staging makes of each operation."""
RowWrite = Append | Merge | Overwrite
_WRITES: Final[Mapping[str, type[RowWrite]]] = {"append": Append, "merge": Merge, "overwrite": Overwrite}
_LOAD_ID: Final = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_HINT: Final = "stage it again with this release"


@dataclass(frozen=True)
class SnapshotRef:
    """The snapshot a load was validated against."""

    branch: str
    manifest_version: int
    graph_commit_id: str
    incarnation: str
    """Distinguishes the branch from a later one of its name."""
    schema_hash: str
    """The schema that the rows satisfy."""


@dataclass(frozen=True)
class StagedTable:
    """One table of a staged load: fragments on the table's own lineage, or rows that wait for the branch's first fork."""

    table_key: str
    operation: str
    rows: int
    staged: dict[str, Any] | None
    spool: str | None


@dataclass(frozen=True, kw_only=True)
class StagedLoad:
    """A validated load whose files are written. `Graph.publish` makes it visible, `Graph.discard` removes it.

    Example:
        >>> staged = graph.stage('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
        >>> [(table.table_key, table.rows) for table in staged.tables]
        [('node:Port', 1)]
    """

    load_id: str
    """The id of the load."""
    base: SnapshotRef
    """The snapshot that it was validated against."""
    mode: str
    """The mode of the load: `append`, `merge` or `overwrite`."""
    tables: tuple[StagedTable, ...]
    """The tables that it changes, with their files."""
    reads: tuple[str, ...]
    """Tables that its validation relied on."""
    nodes: tuple[tuple[str, int], ...]
    """Staged nodes by type."""
    edges: tuple[tuple[str, int], ...]
    """Staged edges by type."""
    provenance: Provenance
    """Actor, message and idempotency key."""
    rejected: int = 0
    """Records that were left out because they break a rule."""
    warnings: tuple[str, ...] = ()
    """Warnings of a load that can be published."""
    is_own: bool = field(default=False, init=False, repr=False, compare=False)
    """True if this process staged the load; its text was not read back from elsewhere."""

    @property
    def branch(self) -> str:
        """The branch that the load is for.

        Example:
            >>> staged = graph.stage('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> staged.branch
            'main'
        """
        return self.base.branch

    def to_json(self) -> str:
        """A text that `from_json` reads back, also on another machine that reaches the same graph.

        Example:
            >>> staged = graph.stage('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> import json
            >>> json.loads(staged.to_json())["mode"]
            'append'
        """
        entry = asdict(self)
        del entry["is_own"]
        return json.dumps({"format": FORMAT, **entry})

    @classmethod
    def from_json(cls, document: str) -> StagedLoad:
        """Read a staged load back. `Graph.publish` reads its rows again and checks them.

        Args:
            document: the text of `to_json`.

        Returns:
            The staged load.

        Raises:
            BadRequest: the text is no staged load of this release.

        Example:
            >>> staged = graph.stage('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> received = og.StagedLoad.from_json(staged.to_json())
            >>> graph.publish(received, message="reviewed").message
            'reviewed'
        """
        try:
            return _load(document)
        except (ValueError, TypeError) as error:
            raise BadRequest(f"this is not a staged load: {error}", hint=_HINT) from None


def check_load_id(load_id: str) -> str:
    """An id that names a directory of its own."""
    if not _LOAD_ID.fullmatch(check_name(load_id, "load_id")):
        hint = "use letters, digits, `-` and `_`, at most 128, beginning with a letter or digit"
        raise BadRequest(f"`{load_id}` cannot be the id of a load", hint=hint)
    return load_id


def operation_of(write: RowWrite) -> str:
    """The name of a load's write in the text of a staged load."""
    return next(name for name, variant in _WRITES.items() if type(write) is variant)


def write_of(table: StagedTable, rows: TableRows) -> RowWrite:
    """The write of a table whose rows are not staged yet."""
    return _WRITES[table.operation](table.table_key, rows)


def staged_handle(table: StagedTable) -> StagedHandle:
    """The staged write of a table that has one."""
    assert table.staged is not None
    return StagedHandle.from_dict(table.staged)


# Members -------------------------------------------------------------------------------------------------------------


def _load(document: str) -> StagedLoad:
    entry = Fields(parse(document), "the load")
    entry.read("format", _known_format)
    load = StagedLoad(
        load_id=entry.read("load_id", _load_id),
        base=entry.read("base", _base),
        mode=entry.read("mode", one_of(MODES)),
        tables=entry.read("tables", listed(_table)),
        reads=entry.read("reads", listed(table_key)),
        nodes=entry.read("nodes", listed(pair(text, whole))),
        edges=entry.read("edges", listed(pair(text, whole))),
        provenance=entry.read("provenance", _provenance),
        rejected=entry.get("rejected", whole, 0),
        warnings=entry.get("warnings", listed(text), ()),
    )
    distinct([table.table_key for table in load.tables], "tables")
    for table in load.tables:
        _check_files(load.load_id, table)
    return load


def _known_format(value: Any) -> int:
    if whole(value) != FORMAT:
        raise ValueError(f"is {value}, where this release knows {FORMAT}")
    return FORMAT


def _load_id(value: Any) -> str:
    if not isinstance(value, str) or not _LOAD_ID.fullmatch(value):
        raise ValueError("is no id")
    return value


def _base(value: Any) -> SnapshotRef:
    entry = Fields(value, "its base")
    return SnapshotRef(
        branch=entry.read("branch", branch_name),
        manifest_version=entry.read("manifest_version", whole),
        graph_commit_id=entry.read("graph_commit_id", text),
        incarnation=entry.read("incarnation", short_text),
        schema_hash=entry.read("schema_hash", short_text),
    )


def _table(value: Any) -> StagedTable:
    entry = Fields(value, "a table")
    return StagedTable(
        table_key=entry.read("table_key", _type_key),
        operation=entry.read("operation", one_of(KINDS)),
        rows=entry.read("rows", whole),
        staged=entry.read("staged", optional(_write)),
        spool=entry.read("spool", optional(text)),
    )


def _type_key(value: Any) -> TableKey:
    key = table_key(value)
    if not (key.is_node or key.is_edge):
        raise ValueError("is no type")
    return key


def _write(value: Any) -> dict[str, Any]:
    """The members that `StagedHandle.from_dict` reads; it validates the transaction."""
    entry = Fields(value, "a write")
    return {
        "path": entry.read("path", text),
        "branch": entry.read("branch", optional(table_branch)),
        "base_version": entry.read("base_version", whole),
        "kind": entry.read("kind", one_of([kind for kinds in KINDS.values() for kind in kinds])),
        "operation_id": entry.read("operation_id", short_text),
        "transaction_uuid": entry.read("transaction_uuid", short_text),
        "rows": entry.read("rows", whole),
        "folded": entry.read("folded", whole),
        "transaction": entry.read("transaction", lambda transaction: transaction),
    }


def _provenance(value: Any) -> Provenance:
    entry = Fields(value, "the provenance")
    return Provenance(
        writer_kind=entry.read("writer_kind", one_of(("Load",))),
        actor=entry.read("actor", optional(text)),
        message=entry.read("message", optional(text)),
        idempotency_key=entry.read("idempotency_key", optional(text)),
    )


def _check_files(load_id: str, table: StagedTable) -> None:
    """A text from elsewhere names files to be read and a directory to be deleted: they must be those of a staged load."""
    if (table.staged is None) == (table.spool is None):
        raise ValueError(f"{table.table_key} has no rows, or twice")
    if table.spool is not None and not re.fullmatch(rf"{STAGED}/{load_id}/[0-9]+-[\w-]+\.arrow", table.spool):
        raise ValueError("it names rows outside of its directory")
    if table.staged is not None and table.staged["path"] != table_path(table.table_key):
        raise ValueError(f"it says that {table.table_key} is at {table.staged['path']!r}")
    if table.staged is not None and table.staged["kind"] not in KINDS[table.operation]:
        raise ValueError(f"the operation on {table.table_key} is {table.operation}, the write is another one")
