"""The results of readers: batches of rows, rejected records; and their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from omnigraph_sql import errors
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.value_codec import BLOB_BYTES, Excess


@dataclass(frozen=True)
class RecordPlace:
    """The place of a record in its input."""

    unit: str
    """`line` or `row`."""
    number: int | None
    """None if records are not counted, because several tasks read one file."""
    source: str | None = None
    """The file, where places distinguish files."""

    def __str__(self) -> str:
        place = self.unit if self.number is None else f"{self.unit} {self.number}"
        return place if self.source is None else f"{self.source}, {place}"


class RecordPlaces(Protocol):
    """Maps record numbers to places."""

    def at(self, number: int) -> RecordPlace:
        """The place of a number."""


@dataclass(frozen=True)
class Counted:
    """Records that are counted from 1."""

    unit: str

    def at(self, number: int) -> RecordPlace:
        return RecordPlace(self.unit, number)


@dataclass(frozen=True)
class Origin:
    """A file of several that are read in sequence."""

    source: str
    unit: str


ORIGIN_RECORDS: Final = 1 << 40
"""More records than a file has: the numbers of records of the next file begin there."""


@dataclass(frozen=True)
class Origins:
    """Records of several files. Their numbers ascend from file to file, so the order of numbers is that of the records."""

    files: Sequence[Origin]

    def at(self, number: int) -> RecordPlace:
        file, record = divmod(number, ORIGIN_RECORDS)
        return RecordPlace(self.files[file].unit, record, self.files[file].source)


@dataclass(frozen=True)
class TableBatch:
    """Rows of one table, ready to be validated: types and column order are the table's, every row has its id."""

    table_key: str
    rows: pa.RecordBatch
    lines: pa.Int64Array
    """The origin of each row: the line of a text, or the row of a table, counted from 1."""
    explicit_id: pa.BooleanArray
    """True if the record itself named the id. False for nodes with a key, whose ids follow from it."""
    source: str | None = None
    """The file the rows came from, where there is one."""


@dataclass(frozen=True, kw_only=True)
class Reject:
    """A record that cannot be loaded, and why."""

    line: int | None
    source: str | None
    table_key: str | None
    id: str | None
    rule: str
    """`json`, `record`, `id`, `blob`, `type`, `required` or `limit`."""
    property: str | None
    value: str | None
    message: str

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values; `type` is the name of the type alone."""
        fields = asdict(self)
        key = fields.pop("table_key")
        return {
            "line": fields.pop("line"),
            "source": fields.pop("source"),
            "type": None if key is None else TableKey(key).name,
            "table_key": key,
            **fields,
        }


OnReject = Callable[[Reject], None]


@dataclass(frozen=True)
class ReaderLimits:
    """Ceilings on what one record may hold; reaching one is allowed, passing it is not."""

    line_bytes: int = 32 << 20
    structural_characters: int = 131_072
    """The characters `{}[],:` of a line, those inside strings not counted."""
    blob_bytes: int = BLOB_BYTES
    """Of one value, decoded."""
    vector_bytes: int = 32 << 20
    """Of the vectors of one row, null or not."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of one record."""

    rule: str
    message: str
    table_key: str | None = None
    id: str | None = None
    property: str | None = None
    value: str | None = None
    hint: str | None = None
    excess: Excess | None = None

    def to_error(self, where: str) -> errors.OmnigraphError:
        message = f"{where}: {self.message}"
        if self.excess is not None:
            excess = self.excess
            return errors.ResourceLimit(
                message, resource=excess.resource, limit=excess.limit, actual=excess.actual, hint=self.hint
            )
        if self.table_key is not None and self.rule in ("type", "required") and self.property not in ("src", "dst"):
            return errors.ValidationFailed(message, table_key=self.table_key, rule=self.rule, id=self.id, hint=self.hint)
        return errors.BadRequest(message, hint=self.hint)


@dataclass(frozen=True)
class Faults:
    """Policy for faulty records: reported if there is a listener, raised otherwise."""

    source: str | None
    places: RecordPlaces
    on_reject: OnReject | None

    def report(self, number: int, fault: Fault) -> None:
        where = self.places.at(number)
        if self.on_reject is None:
            raise fault.to_error(str(where)) from None
        self.on_reject(
            Reject(
                line=where.number,
                source=where.source or self.source,
                table_key=fault.table_key,
                id=fault.id,
                rule=fault.rule,
                property=fault.property,
                value=fault.value,
                message=f"{where}: {fault.message}",
            )
        )
