"""Where tables come from: files, Arrow data, and whatever speaks Arrow's stream protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.writes.reading.model import Places

_ROWS = 1 << 16
_FILES = "files ending in .parquet, .csv, .csv.gz, .arrow, .feather or .ipc"
_ARROW_FILE = b"ARROW1"


@dataclass(frozen=True)
class WrongWidth:
    """A row of a CSV file with too many or too few cells; `row` counts from 1, after the header."""

    row: int
    found: int
    expected: int


AT_COLUMN: Final = "__at"
"""The number of a placed row."""
FLAW_COLUMNS: Final = ("__rule", "__column", "__value")
"""What is wrong with a placed row as its source has it: the rule it breaks (null if none), where, and what is there."""


@dataclass(frozen=True)
class Placed:
    """Arrow batches whose rows bring the numbers of their records along, and what their source found wrong with them.

    Beside the columns of a table they have `AT_COLUMN`, with numbers that ascend, and `FLAW_COLUMNS`.
    """

    batches: pa.RecordBatchReader
    is_text: bool
    """Whether texts are written values, as in CSV files."""


@dataclass(frozen=True)
class PlacedTables:
    """Placed rows of any number of tables, in the order in which they are read; a table may come several times."""

    tables: Iterable[tuple[str, Placed]]
    """Each with the name of its type, as `read_tables` takes it."""
    places: Places
    """What the numbers of all these rows mean."""


@dataclass(frozen=True)
class Stream:
    """A table in pieces."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    name: str | None = None
    is_text: bool = False
    """Every value is written as text, as in CSV files."""
    wrong_rows: list[WrongWidth] = field(default_factory=list)
    """Rows left out of the batches. Filled as the batches are read, ahead of them."""
    is_placed: bool = False
    """Whether rows bring their numbers along, as `Placed` has them."""

    def tables(self, batch_bytes: int, most_rows: int) -> Iterator[pa.Table]:
        """The pieces, joined or cut to a size that is worth the work and fits into memory."""
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
    """What goes wrong inside is the fault of the data."""
    try:
        yield
    except pa.ArrowException as error:
        raise BadRequest(f"cannot read the data of {label}: {error}") from error
    except OSError as error:
        raise BadRequest(f"cannot read the data of {label}: {error.strerror or error}") from error


@contextmanager
def opened(source: Any, label: str, names: Iterable[str]) -> Iterator[Stream]:
    """The source as a stream. `names` are the columns that may be in it, `label` is what messages call it."""
    with ExitStack() as resources:
        with readable(label):
            stream = _stream(source, names, resources)
        yield replace(stream, batches=_guarded(stream.batches, label))


def _guarded(batches: Iterable[pa.RecordBatch], label: str) -> Iterator[pa.RecordBatch]:
    iterator = iter(batches)
    while True:
        with readable(label):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch


def _stream(source: Any, names: Iterable[str], resources: ExitStack) -> Stream:
    if isinstance(source, Path):
        return _from_file(source, names, resources)
    if isinstance(source, Placed):
        return Stream(source.batches.schema, source.batches, is_text=source.is_text, is_placed=True)
    if hasattr(source, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(source)
        return Stream(reader.schema, reader)
    if hasattr(source, "__arrow_c_array__"):
        batch = pa.record_batch(source)
        return Stream(batch.schema, [batch])
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping):
        return _from_batches(source)
    raise BadRequest(
        f"a table cannot be read from a value of type {type(source).__name__}",
        hint=f"give Arrow data, a data frame, or a Path; {_FILES} can be read",
    )


def _from_batches(source: Iterable[Any]) -> Stream:
    batches = _flat(source)
    first = next(batches, None)
    if first is None:
        return Stream(pa.schema([]), [])
    return Stream(first.schema, _same_schema(first, batches))


def _flat(source: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for each in source:
        if isinstance(each, pa.Table):
            yield from each.to_batches()
        elif isinstance(each, pa.RecordBatch):
            yield each
        else:
            raise BadRequest(
                f"a table is read from record batches, found a value of type {type(each).__name__}",
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


def _from_file(path: Path, names: Iterable[str], resources: ExitStack) -> Stream:
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind in ("parquet", "pq"):
        import pyarrow.parquet as pq

        parquet = resources.enter_context(pq.ParquetFile(path))
        return Stream(parquet.schema_arrow, parquet.iter_batches(batch_size=_ROWS), str(path))
    if kind == "csv":
        return _csv(path, names)
    if kind in ("arrow", "feather", "ipc"):
        reader = resources.enter_context(_arrow_reader(resources.enter_context(pa.OSFile(str(path)))))
        return Stream(reader.schema, _arrow_batches(reader), str(path))
    raise BadRequest(f"{path} is not a kind of file that can be read as a table", hint=f"these can: {_FILES}")


def _arrow_reader(file: pa.NativeFile) -> Any:
    is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


def _arrow_batches(reader: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        return (reader.get_batch(index) for index in range(reader.num_record_batches))
    return iter(reader)


def _csv(path: Path, names: Iterable[str]) -> Stream:
    import pyarrow.csv as pv

    wrong: list[WrongWidth] = []

    def leave_out(row: Any) -> str:
        wrong.append(WrongWidth(row.number - 1, row.actual_columns, row.expected_columns))
        return "skip"

    reader = pv.open_csv(
        path,
        # Rows are numbered only when one thread reads them.
        read_options=pv.ReadOptions(use_threads=False),
        parse_options=pv.ParseOptions(newlines_in_values=True, invalid_row_handler=leave_out),
        convert_options=pv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    return Stream(reader.schema, reader, str(path), is_text=True, wrong_rows=wrong)
