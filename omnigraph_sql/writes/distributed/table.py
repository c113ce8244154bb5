"""The table of a distributed load, as its tasks see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from omnigraph_sql.choices import LoadMode
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.store.graph_store import STAGED, GraphStore
from omnigraph_sql.store.json_fields import (
    Fields,
    branch_name,
    flag,
    listed,
    one_of,
    optional,
    short_text,
    table_key,
    text,
    ulid_text,
    whole,
)
from omnigraph_sql.writes.load.loads import MODES, check_mode
from omnigraph_sql.writes.load.staged_load import check_load_id
from omnigraph_sql.writes.readers.model import RecordPlace

SOURCE_COLUMN: Final = "__source"
"""The column with the origin of each row; it is no property."""
ABORTED: Final = "aborted"
"""The mark of a load that was given up, for tasks that still work on it."""
BEGUN: Final = "remote.json"
"""The record of a load's tables; it is removed when the load is published or aborted."""
ORIGIN_STEP: Final = 1 << 48
"""The numbers of rows from the next origin begin there."""


@dataclass(frozen=True, kw_only=True)
class DistributedTable:
    """The description of a table with which a task writes rows. Crosses processes as JSON."""

    load_id: str
    table_key: str
    branch: str
    mode: LoadMode
    schema_hash: str
    manifest_version: int
    """The state of the branch that the job began with."""
    save_id: str
    """Distinguishes several writes to one table."""
    explicit: bool
    """True if the rows name their ids."""
    collects: bool = False
    """True if faulty rows are collected instead of failing the task."""
    origins: tuple[str, ...] | None = None
    """The origins of the rows. Rows carry their numbers (`Placed`), which encode the origin and ascend."""
    is_text: bool = False
    """True if texts are written values, as in CSV files."""

    @property
    def directory(self) -> str:
        return f"{STAGED}/{self.load_id}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, entry: Any) -> DistributedTable:
        """A table from its JSON; ValueError when it is none."""
        fields = Fields(entry, "a table of the load")
        return cls(
            load_id=check_load_id(fields.read("load_id", text)),
            table_key=fields.read("table_key", table_key),
            branch=fields.read("branch", branch_name),
            mode=check_mode(fields.read("mode", one_of(MODES))),
            schema_hash=fields.read("schema_hash", short_text),
            manifest_version=fields.read("manifest_version", whole),
            save_id=fields.read("save_id", ulid_text),
            explicit=fields.read("explicit", flag),
            collects=fields.read("collects", flag),
            origins=fields.read("origins", optional(listed(text))),
            is_text=fields.read("is_text", flag),
        )

    def at(self, number: int) -> RecordPlace:
        """The place of a row that brought its number along."""
        return RecordPlace("a row", None, (self.origins or ())[number // ORIGIN_STEP])


def remove_files(store: GraphStore, notes: Iterable[Mapping[str, Any]]) -> None:
    """Best effort: a file that stays has no references."""
    for note in notes:
        for name in note["files"]:
            with suppress(OmnigraphError):
                store.objects.delete(name)
