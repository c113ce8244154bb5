"""Readers of raw data files, which return batches of numbered rows.

Batches have the columns that `omnigraph_sql.sqltext.row_mapping` describes: the row number, the columns that describe a
flaw, and the requested columns. JSON lines have the single column `LINE`.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.sqltext.row_mapping import AT, COLUMN, RULE, VALUE

LINE: Final = "__line"
CSV_OPTIONS: Final = ("delimiter", "quote", "escape", "header", "names", "encoding", "null")
_BLOCK: Final = 16 << 20
"""The size of a read in bytes, and the longest line."""
_ROWS: Final = 1 << 16
_LINES: Final = 1 << 14
_NO_DELIMITER: Final = "\x1f"
"""A character that does not occur in a JSON line, because JSON requires it to be escaped."""


@dataclass(frozen=True)
class SourceFiles:
    """Files of one format, in reading order."""

    format: str
    paths: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The unit of their record numbers."""
        return "line" if self.format == "jsonl" else "row"


@dataclass
class RecordCounts:
    """A counter of the rows read so far."""

    rows: int = 0


def check_options(files: SourceFiles) -> None:
    """Raise if an option is unknown or has a value of the wrong type."""
    allowed = CSV_OPTIONS if files.format == "csv" else ()
    for name, value in files.options.items():
        if name not in allowed:
            hint = did_you_mean(name, allowed) or (f"there are {listing(allowed)}" if allowed else "leave it out")
            raise BadRequest(f"`{name}` is no option of {files.format} files", hint=hint)
        expected: tuple[Any, str] = (str, "a text")
        if name == "header":
            expected = (bool, "true or false")
        elif name in ("names", "null"):
            expected = (list, "a list of texts")
        if not isinstance(value, expected[0]) or (isinstance(value, list) and not all(isinstance(x, str) for x in value)):
            raise BadRequest(f"the option `{name}` is {value!r}", hint=f"give {expected[1]}")
        if name == "encoding" and not _is_encoding(value):
            raise BadRequest(f"the option `encoding` is {value!r}", hint="give the name of an encoding, as utf-8 or latin-1")
        if name in ("delimiter", "quote", "escape") and len(value) != 1:
            raise BadRequest(f"the option `{name}` is {value!r}", hint="give one character")


def _is_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return True


def header(files: SourceFiles) -> pa.Schema | None:
    """Return the columns of the first file without reading rows; None for JSON lines, which have no header."""
    path = files.paths[0]
    with _readable(path):
        if files.format == "parquet":
            with _parquet_file(path) as file:
                schema: pa.Schema = file.schema_arrow
            return schema
        return _csv_header(path, files.options) if files.format == "csv" else None


def placed_schema(fields: Sequence[pa.Field]) -> pa.Schema:
    """Return the schema of raw rows with these columns."""
    return pa.schema([(AT, pa.int64()), *((name, pa.string()) for name in (RULE, COLUMN, VALUE)), *fields])


def raw_batches(
    files: SourceFiles, columns: Sequence[str], first: int, step: int, tally: RecordCounts
) -> pa.RecordBatchReader:
    """Read all rows. The records of the n-th file are numbered from `(first + n) * step + 1`."""
    file_schema = header(files)
    if file_schema is None:
        fields = [pa.field(LINE, pa.string())]
    else:
        fields = [_field(file_schema, name, files.paths[0]) for name in columns]
    schema = placed_schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        for place, path in enumerate(files.paths):
            with _readable(path):
                for batch in _READERS[files.format](path, fields, files.options):
                    tally.rows += batch.num_rows
                    yield batch.to_record_batch((first + place) * step, schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def line_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert numbered JSON lines in bytes to raw rows; small batches are combined."""
    schema = placed_schema([pa.field(LINE, pa.string())])
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        pending.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _LINES or size >= _BLOCK:
            yield _lines(pending, schema)
            pending, rows, size = [], 0, 0
    if pending:
        yield _lines(pending, schema)


def _lines(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    numbers, lines = pa.concat_batches(batches).columns
    return _decoded(_Piece(np.asarray(numbers), [lines])).to_record_batch(0, schema)


@dataclass(frozen=True)
class _Piece:
    """Rows of a file, and the flaws of rows that could not be read."""

    numbers: Any
    columns: Sequence[pa.Array]
    flaws: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Rule and value of unreadable rows by row number; these are not in `columns`."""

    @property
    def num_rows(self) -> int:
        return len(self.numbers) + len(self.flaws)

    def to_record_batch(self, start: int, schema: pa.Schema) -> pa.RecordBatch:
        """Combine all rows in order, with numbers that are unique among the files."""
        count = len(self.numbers)
        system = [pa.array(self.numbers + start, pa.int64()), *(pa.nulls(count, pa.string()) for _ in range(3))]
        columns = [
            column if column.type == kind else column.cast(kind)
            for column, kind in zip(self.columns, schema.types[4:], strict=True)
        ]
        sound = pa.RecordBatch.from_arrays([*system, *columns], schema=schema)
        if not self.flaws:
            return sound
        numbers = list(self.flaws)
        wrong = [pa.array([number + start for number in numbers], pa.int64())]
        wrong += [pa.array([self.flaws[n][0] for n in numbers], pa.string()), pa.nulls(len(numbers), pa.string())]
        wrong.append(pa.array([self.flaws[n][1] for n in numbers], pa.string()))
        wrong += [pa.nulls(len(numbers), kind) for kind in schema.types[4:]]
        both = pa.concat_batches([sound, pa.RecordBatch.from_arrays(wrong, schema=schema)])
        return both.sort_by(AT)


def _parquet_file(path: str) -> Any:
    """Open a file. Spark's INT96 timestamps are read in microseconds: in nanoseconds, years beyond 2262 overflow."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us")


def _parquet(path: str, fields: Sequence[pa.Field], _options: Mapping[str, Any]) -> Iterator[_Piece]:
    number = 1
    with _parquet_file(path) as file:
        names = [_field(file.schema_arrow, field.name, path).name for field in fields]
        for batch in file.iter_batches(_ROWS, columns=names):
            yield _Piece(np.arange(number, number + batch.num_rows), [batch.column(name) for name in names])
            number += batch.num_rows


def _csv(path: str, fields: Sequence[pa.Field], options: Mapping[str, Any]) -> Iterator[_Piece]:
    import pyarrow.csv as pv

    columns = _csv_header(path, options)
    names = [_field(columns, field.name, path).name for field in fields]
    lines_above = 0 if _has_no_header(options) else 1
    wrong: dict[int, tuple[str, str]] = {}

    def leave_out(row: Any) -> str:
        text = f"it has {row.actual_columns} cells, and there are {row.expected_columns} columns"
        wrong[row.number - lines_above] = ("record", text)
        return "skip"

    reader = _open_csv(
        path,
        options,
        handler=leave_out,
        convert=pv.ConvertOptions(
            column_types=dict.fromkeys(columns.names, pa.string()),
            include_columns=names or columns.names[:1],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=list(options.get("null", [""])),
        ),
    )
    yield from _numbered(reader, wrong, lambda batch: [batch.column(name) for name in names])


def _jsonl(path: str, _fields: Sequence[pa.Field], _options: Mapping[str, Any]) -> Iterator[_Piece]:
    import pyarrow.csv as pv

    wrong: dict[int, tuple[str, str]] = {}

    def leave_out(row: Any) -> str:
        wrong[row.number] = ("json", row.text)
        return "skip"

    convert = pv.ConvertOptions(column_types={LINE: pa.binary()}, strings_can_be_null=False)
    parse = pv.ParseOptions(
        delimiter=_NO_DELIMITER,
        quote_char=False,
        double_quote=False,
        escape_char=False,
        ignore_empty_lines=False,
        invalid_row_handler=leave_out,
    )
    read = pv.ReadOptions(column_names=[LINE], use_threads=False, block_size=_BLOCK)
    reader = _csv_reader(path, read, parse, convert)
    for piece in _numbered(reader, wrong, lambda batch: [batch.column(0)]):
        yield _decoded(piece)


def _decoded(piece: _Piece) -> _Piece:
    """Decode lines and drop blank ones; a line that is not UTF-8 is a flaw."""
    lines, flaws = piece.columns[0], dict(piece.flaws)
    try:
        texts = lines.cast(pa.string())
    except pa.ArrowInvalid:
        values = []
        for number, line in zip(piece.numbers.tolist(), lines.to_pylist(), strict=True):
            try:
                values.append(line.decode("utf-8"))
            except UnicodeDecodeError:
                values.append(None)
                flaws[number] = ("json", line.decode("utf-8", "replace"))
        texts = pa.array(values, pa.string())
    is_line = pc.not_equal(pc.ascii_trim_whitespace(texts), "").fill_null(False)
    if pc.all(is_line).as_py():
        return _Piece(piece.numbers, [texts], flaws)
    return _Piece(piece.numbers[np.asarray(is_line)], [texts.filter(is_line)], flaws)


def _numbered(
    reader: Any, wrong: dict[int, tuple[str, str]], columns: Callable[[pa.RecordBatch], list[pa.Array]]
) -> Iterator[_Piece]:
    """Number the rows of batches as in the file, skipping the numbers of unreadable rows."""
    number = 1
    for batch in reader:
        left_out = np.array(sorted(row for row in wrong if row >= number), dtype=np.int64)
        numbers = np.arange(number, number + batch.num_rows + len(left_out))
        numbers = numbers[~np.isin(numbers, left_out)][: batch.num_rows]
        if batch.num_rows:
            number = int(numbers[-1]) + 1
        flaws = {row: wrong.pop(row) for row in sorted(wrong) if row < number}
        yield _Piece(numbers, columns(batch), flaws)
    if wrong:
        none = columns(pa.RecordBatch.from_pylist([], reader.schema))
        yield _Piece(np.empty(0, dtype=np.int64), none, dict(wrong))


def _has_no_header(options: Mapping[str, Any]) -> bool:
    return "names" in options or options.get("header", True) is False


def _csv_header(path: str, options: Mapping[str, Any]) -> pa.Schema:
    if _has_no_header(options):
        if "names" not in options:
            raise BadRequest("a CSV file without a header needs the option `names`", hint="list the names of its columns")
        return pa.schema([(name, pa.string()) for name in options["names"]])
    reader = _open_csv(path, options)
    names = [] if reader is None else reader.schema.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"{path} has two columns called `{twice}`", hint="give each column a name of its own")
    return pa.schema([(name, pa.string()) for name in names])


def _open_csv(path: str, options: Mapping[str, Any], handler: Any = None, convert: Any = None) -> Any:
    import pyarrow.csv as pv

    parse = pv.ParseOptions(
        delimiter=options.get("delimiter", ","),
        quote_char=options.get("quote", '"'),
        escape_char=options.get("escape", False),
        newlines_in_values=True,
        invalid_row_handler=handler or (lambda _: "skip"),
    )
    read = pv.ReadOptions(
        # Rows have numbers only if a single thread reads them.
        use_threads=False,
        block_size=_BLOCK,
        encoding=options.get("encoding", "utf8"),
        column_names=options.get("names"),
        skip_rows=1 if "names" in options and options.get("header", False) else 0,
    )
    return _csv_reader(path, read, parse, convert)


def _csv_reader(path: str, read: Any, parse: Any, convert: Any) -> Any:
    """Open a reader of batches, without any for an empty file."""
    import pyarrow.csv as pv

    try:
        return pv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return pa.RecordBatchReader.from_batches(pa.schema([]), [])
        raise


def _field(schema: pa.Schema, name: str, path: str) -> pa.Field:
    """Return a column by name; case matters only if names differ in nothing else."""
    if name in schema.names:
        return schema.field(name)
    matches = [column for column in schema.names if column.lower() == name.lower()]
    if len(matches) == 1:
        return schema.field(matches[0])
    hint = did_you_mean(name, schema.names) or f"there are {listing(schema.names) or 'none'}"
    raise BadRequest(f"{path} has no column `{name}`", hint=hint)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Translate exceptions in the block into errors about the file."""
    try:
        yield
    except pa.ArrowException as error:
        raise BadRequest(f"{path} cannot be read: {str(error).splitlines()[0]}", hint=_hint(path)) from error
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror or error}", hint=_hint(path)) from error
    except UnicodeError as error:
        raise BadRequest(f"{path} cannot be read: {error}", hint="say how it is written with the option encoding") from error


def _hint(path: str) -> str:
    return "see that it is a file" if Path(path).is_dir() else "see that it is whole, and of the format that the source says"


_READERS: Final[Mapping[str, Callable[[str, Sequence[pa.Field], Mapping[str, Any]], Iterator[_Piece]]]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
}
