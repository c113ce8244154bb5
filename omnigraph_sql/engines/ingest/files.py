"""Files of raw data as batches of rows that know where they came from.

Batches have the columns that `omnigraph_sql.planner.mapping` describes: a number, what is wrong with the row, and the
columns that were asked for. Of lines of JSON there is one column, `LINE`, with the line.
"""

from __future__ import annotations

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
from omnigraph_sql.planner.mapping import AT, COLUMN, RULE, VALUE

LINE: Final = "__line"
CSV_OPTIONS: Final = ("delimiter", "quote", "escape", "header", "names", "encoding", "null")
_BLOCK: Final = 16 << 20
"""Bytes that are read at once. No line may be longer."""
_ROWS: Final = 1 << 16
_LINES: Final = 1 << 14
_NO_DELIMITER: Final = "\x1f"
"""A character that stands in no line of JSON: there it would have to be escaped."""


@dataclass(frozen=True)
class Files:
    """Files of one format, in the order in which they are read."""

    format: str
    paths: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What their records are counted in."""
        return "line" if self.format == "jsonl" else "row"


@dataclass
class Tally:
    """How many rows were read so far."""

    rows: int = 0


def check_options(files: Files) -> None:
    """Raise if an option is not known, or has a value of the wrong kind."""
    known = CSV_OPTIONS if files.format == "csv" else ()
    for name, value in files.options.items():
        if name not in known:
            hint = did_you_mean(name, known) or (f"there are {listing(known)}" if known else "leave it out")
            raise BadRequest(f"`{name}` is no option of {files.format} files", hint=hint)
        wanted: tuple[Any, str] = (str, "a text")
        if name == "header":
            wanted = (bool, "true or false")
        elif name in ("names", "null"):
            wanted = (list, "a list of texts")
        if not isinstance(value, wanted[0]) or (isinstance(value, list) and not all(isinstance(x, str) for x in value)):
            raise BadRequest(f"the option `{name}` is {value!r}", hint=f"give {wanted[1]}")
        if name in ("delimiter", "quote", "escape") and len(value) != 1:
            raise BadRequest(f"the option `{name}` is {value!r}", hint="give one character")


def header(files: Files) -> pa.Schema | None:
    """The columns of the first file; None where only the data tells, as in lines of JSON. Reads no rows."""
    path = files.paths[0]
    with _readable(path):
        if files.format == "parquet":
            with _parquet_file(path) as file:
                schema: pa.Schema = file.schema_arrow
            return schema
        return _csv_header(path, files.options) if files.format == "csv" else None


def placed_schema(fields: Sequence[pa.Field]) -> pa.Schema:
    """The columns of raw rows."""
    return pa.schema([(AT, pa.int64()), *((name, pa.string()) for name in (RULE, COLUMN, VALUE)), *fields])


def raw_batches(files: Files, columns: Sequence[str], first: int, step: int, tally: Tally) -> pa.RecordBatchReader:
    """All rows. The records of the n-th file are numbered from `(first + n) * step + 1`."""
    found = header(files)
    fields = [pa.field(LINE, pa.string())] if found is None else [_field(found, name, files.paths[0]) for name in columns]
    schema = placed_schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        for place, path in enumerate(files.paths):
            with _readable(path):
                for batch in _READERS[files.format](path, fields, files.options):
                    tally.rows += batch.num_rows
                    yield batch.to_record_batch((first + place) * step, schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def line_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lines of JSON, in bytes, that somebody else has read and numbered, as raw rows; joined, to be worth the work."""
    schema = placed_schema([pa.field(LINE, pa.string())])
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= _LINES or sum(each.nbytes for each in held) >= _BLOCK:
            yield _lines(held, schema)
            held = []
    if held:
        yield _lines(held, schema)


def _lines(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    numbers, lines = pa.concat_batches(batches).columns
    return _decoded(_Piece(np.asarray(numbers), [lines])).to_record_batch(0, schema)


@dataclass(frozen=True)
class _Piece:
    """Rows of a file, and those that could not be read."""

    numbers: Any
    columns: Sequence[pa.Array]
    flaws: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Rule and value, by the numbers of rows that are not among the others."""

    @property
    def num_rows(self) -> int:
        return len(self.numbers) + len(self.flaws)

    def to_record_batch(self, start: int, schema: pa.Schema) -> pa.RecordBatch:
        """All of them in order, with numbers that no other file has."""
        count = len(self.numbers)
        system = [pa.array(self.numbers + start, pa.int64()), *(pa.nulls(count, pa.string()) for _ in range(3))]
        columns = [
            each if each.type == f.type else each.cast(f.type)
            for each, f in zip(self.columns, list(schema)[4:], strict=True)
        ]
        sound = pa.RecordBatch.from_arrays([*system, *columns], schema=schema)
        if not self.flaws:
            return sound
        numbers = list(self.flaws)
        wrong = [pa.array([number + start for number in numbers], pa.int64())]
        wrong += [pa.array([self.flaws[n][0] for n in numbers], pa.string()), pa.nulls(len(numbers), pa.string())]
        wrong.append(pa.array([self.flaws[n][1] for n in numbers], pa.string()))
        wrong += [pa.nulls(len(numbers), each.type) for each in list(schema)[4:]]
        both = pa.concat_batches([sound, pa.RecordBatch.from_arrays(wrong, schema=schema)])
        return both.sort_by(AT)


def _parquet_file(path: str) -> Any:
    """A file. The times that Spark writes (INT96) are read in microseconds: in nanoseconds years beyond 2262 overflow."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us")


def _parquet(path: str, fields: Sequence[pa.Field], _options: Mapping[str, Any]) -> Iterator[_Piece]:
    number = 1
    with _parquet_file(path) as file:
        names = [_field(file.schema_arrow, each.name, path).name for each in fields]
        for batch in file.iter_batches(_ROWS, columns=names):
            yield _Piece(np.arange(number, number + batch.num_rows), [batch.column(name) for name in names])
            number += batch.num_rows


def _csv(path: str, fields: Sequence[pa.Field], options: Mapping[str, Any]) -> Iterator[_Piece]:
    import pyarrow.csv as pv

    known = _csv_header(path, options)
    names = [_field(known, each.name, path).name for each in fields]
    lines_above = 0 if _has_no_header(options) else 1
    wrong: dict[int, tuple[str, str]] = {}

    def leave_out(row: Any) -> str:
        text = f"it has {row.actual_columns} cells, and there are {row.expected_columns} columns"
        wrong[row.number - lines_above] = ("record", text)
        return "skip"

    reader = _opened(
        path,
        options,
        handler=leave_out,
        convert=pv.ConvertOptions(
            column_types=dict.fromkeys(known.names, pa.string()),
            include_columns=names or known.names[:1],
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
    reader = _streamed(path, read, parse, convert)
    for piece in _numbered(reader, wrong, lambda batch: [batch.column(0)]):
        yield _decoded(piece)


def _decoded(piece: _Piece) -> _Piece:
    """Lines as texts, without those that are blank; one that is not UTF-8 has something wrong."""
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
    """Batches whose rows are numbered as in the file; the numbers of rows that were left out are theirs."""
    number = 1
    for batch in reader:
        left_out = np.array(sorted(each for each in wrong if each >= number), dtype=np.int64)
        numbers = np.arange(number, number + batch.num_rows + len(left_out))
        numbers = numbers[~np.isin(numbers, left_out)][: batch.num_rows]
        if batch.num_rows:
            number = int(numbers[-1]) + 1
        flaws = {each: wrong.pop(each) for each in sorted(wrong) if each < number}
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
    reader = _opened(path, options)
    names = [] if reader is None else reader.schema.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"{path} has two columns called `{twice}`", hint="give each column a name of its own")
    return pa.schema([(name, pa.string()) for name in names])


def _opened(path: str, options: Mapping[str, Any], handler: Any = None, convert: Any = None) -> Any:
    import pyarrow.csv as pv

    parse = pv.ParseOptions(
        delimiter=options.get("delimiter", ","),
        quote_char=options.get("quote", '"'),
        escape_char=options.get("escape", False),
        newlines_in_values=True,
        invalid_row_handler=handler or (lambda _: "skip"),
    )
    read = pv.ReadOptions(
        # Rows are numbered only when one thread reads them.
        use_threads=False,
        block_size=_BLOCK,
        encoding=options.get("encoding", "utf8"),
        column_names=options.get("names"),
        skip_rows=1 if "names" in options and options.get("header", False) else 0,
    )
    return _streamed(path, read, parse, convert)


def _streamed(path: str, read: Any, parse: Any, convert: Any) -> Any:
    """A reader of batches; of none for an empty file."""
    import pyarrow.csv as pv

    try:
        return pv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return pa.RecordBatchReader.from_batches(pa.schema([]), [])
        raise


def _field(schema: pa.Schema, name: str, path: str) -> pa.Field:
    """A column by its name; case does not matter where names differ by more than case."""
    if name in schema.names:
        return schema.field(name)
    alike = [each for each in schema.names if each.lower() == name.lower()]
    if len(alike) == 1:
        return schema.field(alike[0])
    hint = did_you_mean(name, schema.names) or f"there are {listing(schema.names) or 'none'}"
    raise BadRequest(f"{path} has no column `{name}`", hint=hint)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """What goes wrong inside is the fault of the file."""
    try:
        yield
    except pa.ArrowException as error:
        raise BadRequest(f"{path} cannot be read: {str(error).splitlines()[0]}", hint=_hint(path)) from error
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror or error}", hint=_hint(path)) from error


def _hint(path: str) -> str:
    return "see that it is a file" if Path(path).is_dir() else "see that it is whole, and of the format that the source says"


_READERS: Final[Mapping[str, Callable[[str, Sequence[pa.Field], Mapping[str, Any]], Iterator[_Piece]]]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
}
