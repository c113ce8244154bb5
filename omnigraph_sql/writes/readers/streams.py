"""Sources of tables: files, Arrow data, and objects with Arrow's stream protocol."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.storage.source_files import is_path
from omnigraph_sql.writes.readers.csv_files import open_csv
from omnigraph_sql.writes.readers.model import RecordPlaces

_ROWS = 1 << 16
_FILES = "files ending in .parquet, .csv, .csv.gz, .arrow, .feather or .ipc"
_ARROW_FILE = b"ARROW1"
_NO_OPTIONS: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True)
class WrongWidth:
    """A row of a CSV file with too many or too few cells; `row` counts from 1, after the header."""

    row: int
    cells: int
    expected: int


AT_COLUMN: Final = "__at"
"""The number of a placed row."""
FLAW_COLUMNS: Final = ("__rule", "__column", "__value")
"""The fault of a row in its source: the rule that it breaks (null if none), the place, and the value."""


@dataclass(frozen=True)
class PlacedTable:
    """Arrow batches whose rows bring the numbers of their records along, and what their source found wrong with them.

    Beside the columns of a table they have `AT_COLUMN`, with numbers that ascend, and `FLAW_COLUMNS`.
    """

    batches: pa.RecordBatchReader
    is_text: bool
    """True if texts are written values, as in CSV files."""


@dataclass(frozen=True)
class PlacedTables:
    """Placed rows of any number of tables, in the order in which they are read; a table may come several times."""

    tables: Iterable[tuple[str, PlacedTable]]
    """Each with the name of its type, as `read_tables` takes it."""
    places: RecordPlaces
    """The places that the numbers of the rows mean."""


@dataclass(frozen=True, kw_only=True)
class TableStream:
    """A table in pieces."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    name: str | None = None
    is_text: bool = False
    """Every value is written as text, as in CSV files."""
    wrong_rows: list[WrongWidth] = field(default_factory=list)
    """Rows left out of the batches. Filled as the batches are read, ahead of them."""
    is_placed: bool = False
    """True if rows bring their numbers along, as `PlacedTable` has them."""

    def tables(self, batch_bytes: int, most_rows: int) -> Iterator[pa.Table]:
        """Yield the pieces, merged or split to an efficient size that fits into memory."""
        most_rows = min(most_rows, _ROWS)
        gathered: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self.batches:
            if batch.num_rows == 0:
                continue
            step = min(most_rows, _rows_within(batch, batch_bytes))
            for start in range(0, batch.num_rows, step):
                piece = batch.slice(start, step)
                if gathered and (rows + piece.num_rows > most_rows or size + _size(piece) > batch_bytes):
                    yield pa.Table.from_batches(gathered, self.schema)
                    gathered, rows, size = [], 0, 0
                gathered.append(piece)
                rows += piece.num_rows
                size += _size(piece)
        if gathered:
            yield pa.Table.from_batches(gathered, self.schema)


def _rows_within(batch: pa.RecordBatch, batch_bytes: int) -> int:
    size = _size(batch)
    rows = int(batch.num_rows)
    return rows if size <= batch_bytes else max(1, rows * batch_bytes // size)


def _size(batch: pa.RecordBatch) -> int:
    try:
        return int(batch.nbytes)
    except pa.ArrowNotImplementedError:  # some layouts cannot tell what a slice refers to
        return int(batch.get_total_buffer_size())


@contextmanager
def readable(label: str) -> Iterator[None]:
    """Translate errors inside into errors of the data."""
    try:
        yield
    except pa.ArrowException as error:
        hint = _encoding_hint(b"") if "invalid UTF8" in str(error) else None
        raise BadRequest(f"cannot read the data of {label}: {error}", hint=hint) from error
    except OSError as error:
        raise BadRequest(f"cannot read the data of {label}: {error.strerror or error}") from error
    except UnicodeError as error:
        hint = _encoding_hint(error.object if isinstance(error, UnicodeDecodeError) else b"")
        raise BadRequest(f"cannot read the data of {label}: {error}", hint=hint) from error


def _encoding_hint(data: bytes) -> str:
    name = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "latin-1"
    return f'say how the file is written: csv={{"encoding": "{name}"}}, or --csv-encoding {name}'


@contextmanager
def opened(source: Any, label: str, names: Iterable[str], csv: Mapping[str, Any] = _NO_OPTIONS) -> Iterator[TableStream]:
    """The source as a stream. `names` are the columns that may be in it, `label` is what messages call it."""
    with ExitStack() as resources:
        with readable(label):
            stream = _stream(source, names, resources, csv)
        yield replace(stream, batches=_guarded(stream.batches, label))


def _guarded(batches: Iterable[pa.RecordBatch], label: str) -> Iterator[pa.RecordBatch]:
    iterator = iter(batches)
    while True:
        with readable(label):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch


def _stream(source: Any, names: Iterable[str], resources: ExitStack, csv: Mapping[str, Any]) -> TableStream:
    if isinstance(source, str) and not is_path(source):
        raise BadRequest(
            "a text names the file of a table, and is not its content", hint=f"give a path; {_FILES} can be read"
        )
    if isinstance(source, str | os.PathLike):
        return _from_file(Path(source), names, resources, csv)
    if isinstance(source, PlacedTable):
        return TableStream(schema=source.batches.schema, batches=source.batches, is_text=source.is_text, is_placed=True)
    if hasattr(source, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(source)
        return TableStream(schema=reader.schema, batches=reader)
    if hasattr(source, "__arrow_c_array__"):
        batch = pa.record_batch(source)
        return TableStream(schema=batch.schema, batches=[batch])
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping):
        return _from_batches(source)
    raise BadRequest(
        f"a table cannot be read from a value of type {type(source).__name__}",
        hint=f"give Arrow data, a data frame, or a Path; {_FILES} can be read",
    )


def _from_batches(source: Iterable[Any]) -> TableStream:
    batches = _flat(source)
    first = next(batches, None)
    if first is None:
        return TableStream(schema=pa.schema([]), batches=[])
    return TableStream(schema=first.schema, batches=_same_schema(first, batches))


def _flat(source: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for item in source:
        if isinstance(item, pa.Table):
            yield from item.to_batches()
        elif isinstance(item, pa.RecordBatch):
            yield item
        else:
            raise BadRequest(
                f"a table is read from record batches, found a value of type {type(item).__name__}",
                hint="records as lines of JSON are loaded without naming a type",
            )


def _same_schema(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    for batch in rest:
        if not batch.schema.equals(first.schema):
            raise BadRequest(
                f"the batches of a table differ in their columns: {batch.schema.names} and {first.schema.names}"
            )
        yield batch


def _from_file(path: Path, names: Iterable[str], resources: ExitStack, csv: Mapping[str, Any]) -> TableStream:
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind in ("parquet", "pq"):
        import pyarrow.parquet as pq

        parquet = resources.enter_context(pq.ParquetFile(path))
        return TableStream(schema=parquet.schema_arrow, batches=parquet.iter_batches(batch_size=_ROWS), name=str(path))
    if kind == "csv":
        return _csv(path, names, csv)
    if kind in ("arrow", "feather", "ipc"):
        reader = resources.enter_context(_arrow_reader(resources.enter_context(pa.OSFile(str(path)))))
        return TableStream(schema=reader.schema, batches=_arrow_batches(reader), name=str(path))
    hint = f"these can: {_FILES}"
    if kind in ("jsonl", "ndjson", "json"):
        hint = f'records are loaded without naming a type: load("{path}", ...)'
    raise BadRequest(f"{path} is not a kind of file that can be read as a table", hint=hint)


def _arrow_reader(file: pa.NativeFile) -> Any:
    is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


def _arrow_batches(reader: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        return (reader.get_batch(index) for index in range(reader.num_record_batches))
    return iter(reader)


def _csv(path: Path, names: Iterable[str], options: Mapping[str, Any]) -> TableStream:
    wrong: list[WrongWidth] = []
    reader = open_csv(path, names, options, lambda *fields: wrong.append(WrongWidth(*fields)))
    schema = reader.schema
    _ = schema.names  # names that are no UTF-8 raise here, as a fault of the file
    return TableStream(schema=schema, batches=reader, name=str(path), is_text=True, wrong_rows=wrong)
