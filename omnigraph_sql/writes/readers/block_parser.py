"""The fast parser: parses the lines of one type at a time with Arrow's JSON reader.

Arrow reads what the rules of the records allow and a little more, and it refuses some of what they allow. So nothing is
refused here: a line is either taken over, when there is no doubt about it, or left to the exact way. What Arrow would let
pass, and who notices:

- several records on a line, a record over several lines: a line begins with `{` and ends with `}`, and there are as many
  rows as lines;
- `NaN` and infinities: the casts;
- null elements of lists, and whatever does not fit a type by value: the casts;
- null where a member must be absent or there (`id`, `data`, properties with a `@default`): `_explicit_nulls`;
- bytes that are not UTF-8: checked up front.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph_compiler import PropType
from omnigraph_compiler.types import FLOATS, INTEGERS
from omnigraph_sql.writes.readers.casts import Rows, cast, rows_of
from omnigraph_sql.writes.readers.ids import canonical_texts
from omnigraph_sql.writes.readers.layout import Layout, LayoutPart, with_key_ids
from omnigraph_sql.writes.readers.model import ReaderLimits

_CHUNK = 1 << 20
_PIECES = 16
_SMALLEST = 64
_SAMPLE = 32
_MEMBERS = {"src": "from", "dst": "to"}
_EXACT_FLOAT = float(2**53)
_ENDS = (b"}\n", b"}\r\n")
# An escaped ASCII character: the only other notation of a member's name.
_HIDDEN_NAME = r"\\u00[2-7]"


@dataclass(frozen=True)
class Lines:
    """Lines of one type with their numbers, newlines included."""

    texts: pa.BinaryArray
    numbers: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: Rows) -> Lines:
        return Lines(self.texts.take(pa.array(rows)), self.numbers[rows])

    def halves(self) -> Iterator[Lines]:
        middle = len(self) // 2
        yield Lines(self.texts.slice(0, middle), self.numbers[:middle])
        yield Lines(self.texts.slice(middle), self.numbers[middle:])

    def pieces(self) -> Iterator[Lines]:
        size = max(_SMALLEST, -(-len(self) // _PIECES))
        for start in range(0, len(self), size):
            yield Lines(self.texts.slice(start, size), self.numbers[start : start + size])

    def buffer(self) -> pa.Buffer:
        """The lines as one text."""
        _, offsets, data = self.texts.buffers()
        bounds = np.frombuffer(offsets, dtype=np.int32)[self.texts.offset : self.texts.offset + len(self.texts) + 1]
        return data.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


@dataclass(frozen=True)
class BlockOutcome:
    """The rows that the fast parser made of some lines, and the lines it leaves to the exact parser."""

    parts: list[LayoutPart]
    doubtful: list[Lines]


@dataclass(frozen=True)
class _Parsed:
    """Lines that Arrow could read, with what it read, and lines that it refused."""

    accepted: list[tuple[pa.Table, Lines]]
    refused: list[Lines]

    def joined(self) -> tuple[pa.Table, Lines]:
        if len(self.accepted) == 1:
            return self.accepted[0]
        texts = pa.concat_arrays([lines.texts for _, lines in self.accepted])
        numbers = np.concatenate([lines.numbers for _, lines in self.accepted])
        return pa.concat_tables([table for table, _ in self.accepted]), Lines(texts, numbers)


class BlockParser:
    """Reads lines of one type; remembers which JSON types its values have."""

    def __init__(self, layout: Layout, limits: ReaderLimits) -> None:
        self._layout = layout
        self._limits = limits
        self._numeric_dates: frozenset[str] = frozenset()
        self._fractional: frozenset[str] = frozenset()
        self._whole_ends: frozenset[str] = frozenset()
        """The members `from` and `to` that are whole numbers: keys of nodes."""
        self._nulls = _explicit_null_pattern(layout)
        self._schema = self._json_schema()

    def read(self, lines: Lines) -> BlockOutcome:
        certain, odd = _with_plain_ends(lines)
        parsed = _Parsed([], [odd] if len(odd) else [])
        if len(certain) and not (
            self._attempt(certain, parsed) or (self._learn(certain) and self._attempt(certain, parsed))
        ):
            self._divide(certain, parsed)
        if not parsed.accepted:
            return BlockOutcome([], parsed.refused)
        table, taken = parsed.joined()
        part, doubtful = self._convert(table, taken)
        if not len(doubtful):
            return BlockOutcome([part], parsed.refused)
        kept = np.setdiff1d(np.arange(len(taken)), doubtful)
        rest = LayoutPart(part.lines[kept], {name: column.take(pa.array(kept)) for name, column in part.columns.items()})
        return BlockOutcome([rest] if len(kept) else [], [*parsed.refused, taken.take(doubtful)])

    def _divide(self, lines: Lines, parsed: _Parsed) -> None:
        """Isolate the lines that Arrow rejects by bisection, so that the exact parser gets only those."""
        if len(lines) <= _SMALLEST:
            parsed.refused.append(lines)
            return
        for piece in lines.pieces():
            if not self._attempt(piece, parsed):
                self._divide(piece, parsed)

    def _attempt(self, lines: Lines, parsed: _Parsed) -> bool:
        try:
            lines.texts.cast(pa.string())  # refuses what is not UTF-8
            table = self._parse(lines)
        except pa.ArrowInvalid:
            return False
        if table.num_rows != len(lines):
            return False
        parsed.accepted.append((table, lines))
        return True

    def _parse(self, lines: Lines) -> pa.Table:
        text = lines.buffer()
        longest = pc.max(pc.binary_length(lines.texts)).as_py()
        return pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=text.size > _CHUNK, block_size=max(_CHUNK, longest + 1)),
            parse_options=pj.ParseOptions(
                explicit_schema=self._schema, newlines_in_values=False, unexpected_field_behavior="error"
            ),
        )

    def _json_schema(self) -> pa.Schema:
        data = [pa.field("id", pa.string())]
        data += [pa.field(name, self._json_type(name, prop.type)) for name, prop in self._layout.properties.items()]
        names = ("edge", "from", "to") if self._layout.is_edge else ("type",)
        types = {name: pa.int64() if name in self._whole_ends else pa.string() for name in names}
        return pa.schema([*types.items(), pa.field("data", pa.struct(data))])

    def _json_type(self, name: str, type_: PropType) -> pa.DataType:
        if type_.is_vector:
            return pa.list_(pa.float64())
        # Wider than the column: what does not fit is one doubtful row, not a refusal of all of them. Floats are rounded
        # twice, as the exact way does it.
        scalar = type_.scalar
        if scalar in INTEGERS:
            json_type = pa.float64() if name in self._fractional else pa.uint64() if scalar == "U64" else pa.int64()
        elif scalar in FLOATS:
            json_type = pa.float64()
        elif scalar == "Bool":
            json_type = pa.bool_()
        else:
            json_type = pa.int64() if name in self._numeric_dates else pa.string()
        return pa.list_(json_type) if type_.is_list else json_type

    def _learn(self, lines: Lines) -> bool:
        """Look at some records to see whether other JSON types are in use than those tried; true if so."""
        before = (self._numeric_dates, self._fractional, self._whole_ends)
        for name, kinds in self._kinds(lines).items():
            scalar = self._layout.properties[name].type.scalar
            if scalar in ("Date", "DateTime"):
                self._numeric_dates = self._numeric_dates | {name} if int in kinds else self._numeric_dates - {name}
            elif scalar in INTEGERS and float in kinds:
                self._fractional |= {name}
        self._whole_ends = self._find_whole_ends(lines)
        self._schema = self._json_schema()
        return before != (self._numeric_dates, self._fractional, self._whole_ends)

    def _find_whole_ends(self, lines: Lines) -> frozenset[str]:
        ends = {_MEMBERS[end]: type_ for end, type_ in self._layout.ends.items() if type_.scalar in INTEGERS}
        kinds: dict[str, set[type]] = {name: set() for name in ends}
        for text in lines.texts.slice(0, _SAMPLE).to_pylist() if ends else ():
            try:
                record = json.loads(text)
                for name in ends:
                    kinds[name].add(type(record.get(name)))
            except (ValueError, AttributeError, RecursionError):
                continue
        return frozenset(name for name, types in kinds.items() if int in types)

    def _kinds(self, lines: Lines) -> dict[str, set[type]]:
        """The Python types of the values, or their elements, that some records have for each property."""
        kinds: dict[str, set[type]] = {}
        for text in lines.texts.slice(0, _SAMPLE).to_pylist():
            try:
                members = json.loads(text).get("data", {}).items()
            except (ValueError, AttributeError, RecursionError):
                continue
            for name, value in members:
                if name in self._layout.properties and value is not None:
                    elements = value if isinstance(value, list) else (value,)
                    kinds.setdefault(name, set()).update(type(element) for element in elements)
        return kinds

    def _convert(self, table: pa.Table, lines: Lines) -> tuple[LayoutPart, Rows]:
        """Columns of the right types, and the rows that need a closer look."""
        layout, doubts = self._layout, [self._explicit_nulls(lines)]
        columns: dict[str, pa.Array] = {}
        if layout.is_edge:
            columns = {end: self._end(table, end) for end in _MEMBERS}
            doubts += [_nulls(column) for column in columns.values()]
        members = _members(table)
        columns["id"] = stated_ids = members["id"]
        for name, prop in layout.properties.items():
            if name in self._fractional:
                doubts.append(_inexact(members[name]))
            result = cast(members[name], prop.type, self._limits)
            doubts.append(rows_of(result.flaws))
            values = result.values
            if name in layout.defaults:
                values = values.fill_null(pa.scalar(layout.defaults[name], values.type))
            if layout.requires(prop):
                doubts.append(_nulls(values))
            columns[name] = values
        columns = with_key_ids(layout, columns)
        if layout.node_with_key is not None:
            doubts.append(np.flatnonzero(np.asarray(pc.not_equal(stated_ids, columns["id"]).fill_null(False))))
        return LayoutPart(lines.numbers, columns), np.unique(np.concatenate(doubts))

    def _end(self, table: pa.Table, end: str) -> pa.StringArray:
        """Ids of nodes; null where the exact way must look."""
        column = _column(table, _MEMBERS[end])
        if _MEMBERS[end] not in self._whole_ends:
            return column
        type_ = self._layout.ends[end]
        return canonical_texts(type_, cast(column, type_, self._limits).values)

    def _explicit_nulls(self, lines: Lines) -> Rows:
        """Rows where a null is written that must not be taken for an absent member."""
        if not pc.any(pc.match_substring(lines.texts, "null")).as_py():
            return np.empty(0, dtype=np.int64)
        suspect = pc.match_substring_regex(lines.texts, self._nulls)
        return np.flatnonzero(np.asarray(suspect))


def _explicit_null_pattern(layout: Layout) -> str:
    names = "|".join(re.escape(name) for name in ("id", "data", *layout.defaults))
    return rf'"(?:{names})"\s*:\s*null|{_HIDDEN_NAME}'


def _with_plain_ends(lines: Lines) -> tuple[Lines, Lines]:
    """Split lines into those that end with a closing brace, and the others."""
    ends = pc.ends_with(lines.texts, _ENDS[0])
    if not pc.all(ends).as_py():
        ends = pc.or_(ends, pc.ends_with(lines.texts, _ENDS[1]))
    mask = np.asarray(ends)
    if mask.all():
        return lines, Lines(lines.texts.slice(0, 0), lines.numbers[:0])
    return lines.take(np.flatnonzero(mask)), lines.take(np.flatnonzero(~mask))


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _members(table: pa.Table) -> Mapping[str, pa.Array]:
    """The members of `data`, null where `data` is absent."""
    data = _column(table, "data")
    return dict(zip([data.type.field(index).name for index in range(data.type.num_fields)], data.flatten(), strict=True))


def _nulls(column: pa.Array) -> Rows:
    if not column.null_count:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.asarray(column.is_null()))


def _inexact(column: pa.Array) -> Rows:
    """Rows of whole numbers, read as floats, that a float may not hold exactly."""
    lists = pa.types.is_list(column.type)
    numbers = pc.list_flatten(column) if lists else column
    large = np.asarray(pc.greater_equal(pc.abs(numbers), _EXACT_FLOAT).fill_null(False))
    if not lists:
        return np.flatnonzero(large)
    return np.unique(np.asarray(pc.list_parent_indices(column))[large])
