"""What tasks of a load that many processes write need to know about their table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.load import LoadMode
from omnigraph_sql.writes.reading.model import Place
from omnigraph_sql.writes.staged import DIRECTORY

SOURCE_COLUMN: Final = "__source"
"""The column that says what a row came from; it is no property."""
ABORTED: Final = "aborted"
"""The mark of a load that was given up, for tasks that still work on it."""
BEGUN: Final = "remote.json"
"""What a load began with; it goes when the load is published or given up."""
ORIGIN_STEP: Final = 1 << 48
"""The numbers of rows from the next origin begin there."""


@dataclass(frozen=True)
class RemoteTable:
    """What a task needs to know to write rows of one table. Crosses processes as JSON."""

    load_id: str
    table_key: str
    branch: str
    mode: LoadMode
    schema_hash: str
    manifest_version: int
    """The state of the branch that the job began with."""
    save_id: str
    """Tells several writes to one table apart."""
    explicit: bool
    """Whether the rows name their ids."""
    collects: bool = False
    """Whether faulty rows are collected instead of failing the task."""
    origins: tuple[str, ...] | None = None
    """What the rows came from. They bring their numbers along (`Placed`), which tell the origin and ascend."""
    is_text: bool = False
    """Whether texts are written values, as in CSV files."""

    @property
    def directory(self) -> str:
        return f"{DIRECTORY}/{self.load_id}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> RemoteTable:
        origins = entry["origins"]
        return cls(**{**entry, "origins": None if origins is None else tuple(origins)})

    def at(self, number: int) -> Place:
        """The place of a row that brought its number along."""
        return Place("a row", None, (self.origins or ())[number // ORIGIN_STEP])


def remove_files(engine: Engine, notes: Iterable[Mapping[str, Any]]) -> None:
    """Best effort: a file that stays is one that nobody refers to."""
    for note in notes:
        for name in note["files"]:
            with suppress(OmnigraphError):
                engine.objects.delete(name)
