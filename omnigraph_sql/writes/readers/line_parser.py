"""The exact parser: one line at a time, with every rule checked and a message for every error.

The fast parser passes on all lines that it does not fully understand, so this one decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_compiler.values import canonical_text
from omnigraph_sql.json_members import DuplicateMember, refuse_constant, unique_members
from omnigraph_sql.writes.readers.ids import key_id
from omnigraph_sql.writes.readers.layout import ENDPOINT_NAMES, SYSTEM_NAMES, Layout, LayoutPart, Layouts, with_key_ids
from omnigraph_sql.writes.readers.model import Fault, ReaderLimits
from omnigraph_sql.writes.readers.sources import line_excess
from omnigraph_sql.writes.value_codec import Complaint, Excess, kind, recorded, shown, stored_value

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_STRUCTURAL = tuple(b"{}[],:"[index : index + 1] for index in range(6))
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MINUS_ZERO = re.compile(r"-0(?![0-9.eE])")
_BLANK = b" \t\r\n"
_NODE_MEMBERS = frozenset({"type", "data"})
_EDGE_MEMBERS = frozenset({"edge", "from", "to", "data"})


class FaultyRecord(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True)
class Record:
    """A checked record: the id it names or that follows from its key, and the values in column order."""

    layout: Layout
    id: str | None
    endpoints: tuple[str, ...]
    values: list[Any]


def is_skipped(line: bytes) -> bool:
    """True if a line holds no record: it is blank or a comment."""
    return line.startswith(b"//") or not line.strip(_BLANK)


def read_line(line: bytes, layouts: Layouts, limits: ReaderLimits) -> Record:
    """The record of one line; raises `FaultyRecord`."""
    _check_size(line, limits)
    top = _decode(line)
    if not isinstance(top, dict):
        _fail("json", f"expects a JSON object, found {kind(top)}")
    layout = _layout(top, layouts)
    ends = (("from", "src"), ("to", "dst")) if layout.is_edge else ()
    endpoints = tuple(_endpoint(top, name, end, layout, limits) for name, end in ends)
    data = top.get("data", {})
    if not isinstance(data, dict):
        _fail("record", f"{layout.key}: `data` must be an object, found {kind(data)}", table_key=layout.key)
    return _record(layout, endpoints, data, limits)


def _check_size(line: bytes, limits: ReaderLimits) -> None:
    size = len(line.removesuffix(b"\n").removesuffix(b"\r"))
    if size > limits.line_bytes:
        raise FaultyRecord(line_excess(size, limits))
    limit = limits.structural_characters
    if size <= limit or _structural(line) <= limit:
        return
    count = _structural(_STRING.sub(b"", line))
    if count > limit:
        excess = Excess("load_line_structural_characters", limit, count)
        message = f"the line holds {count} structural characters of JSON, and a line may have {limit}"
        raise FaultyRecord(Fault(rule="limit", message=message, excess=excess))


def _structural(line: bytes) -> int:
    return sum(line.count(character) for character in _STRUCTURAL)


# From text to JSON values


class _MinusZero(int):
    """`-0`: an integer that keeps its sign when it becomes a float."""

    def __float__(self) -> float:
        return -0.0


def _odd_integer(digits: str) -> int | float:
    """Python refuses to read integers of thousands of digits; as numbers they are beyond every range anyway."""
    if digits == "-0":
        return _MinusZero()
    return int(digits) if len(digits) < 1000 else float(digits)


_decoder = json.JSONDecoder(object_pairs_hook=unique_members, parse_constant=refuse_constant)
_patient_decoder = json.JSONDecoder(object_pairs_hook=unique_members, parse_constant=refuse_constant, parse_int=_odd_integer)


def _decode(line: bytes) -> Any:
    try:
        text = line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        _fail("json", f"invalid JSON: byte {error.start + 1} of the line is not UTF-8 (0x{line[error.start]:02x})")
    value = _parse(text)
    if _SURROGATE.search(text) and _has_surrogate(value):
        _fail("json", "invalid JSON: a string holds half of a surrogate pair, which is no character")
    return value


def _parse(text: str) -> Any:
    try:
        try:
            return (_patient_decoder if _MINUS_ZERO.search(text) else _decoder).decode(text)
        except json.JSONDecodeError:
            raise
        except ValueError:
            return _patient_decoder.decode(text)
    except DuplicateMember as duplicate:
        _fail("json", f"duplicate JSON member `{clip(str(duplicate))}`")
    except json.JSONDecodeError as error:
        _fail("json", f"invalid JSON: {error.msg} at column {error.pos + 1}")
    except ValueError as error:
        _fail("json", f"invalid JSON: {error}")
    except RecursionError:
        _fail("json", "invalid JSON: nested too deeply")


def _has_surrogate(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


# The shape of a record


def _layout(top: Mapping[str, Any], layouts: Layouts) -> Layout:
    if ("type" in top) == ("edge" in top):
        present = "both" if "type" in top else "neither"
        _fail("record", f"a record has exactly one of `type` and `edge`, found {present}")
    is_edge = "edge" in top
    for member in top:
        if member not in (_EDGE_MEMBERS if is_edge else _NODE_MEMBERS):
            _unknown_member(member)
    name = _text(top, "edge" if is_edge else "type")
    layout = layouts.edge(name) if is_edge else layouts.node(name)
    if layout is None:
        text = f"unknown {'edge' if is_edge else 'node'} type `{clip(name)}`"
        _fail("record", text, hint=layouts.edge_hint(name) if is_edge else layouts.node_hint(name))
    return layout


def _unknown_member(name: str) -> NoReturn:
    if name in SYSTEM_NAMES | ENDPOINT_NAMES or name == "id":
        _fail("record", f"unknown member `{name}` of a record: the name is reserved", hint=_PLACES.get(name))
    _fail("record", f"unknown member `{clip(name)}` of a record", hint="properties belong into `data`")


_PLACES = {
    "id": "an id belongs into `data`",
    "src": "the source of an edge is written `from`",
    "dst": "the target of an edge is written `to`",
    "from": "only edges have `from` and `to`",
    "to": "only edges have `from` and `to`",
}


def _text(top: Mapping[str, Any], name: str) -> str:
    value = top[name]
    if not isinstance(value, str):
        _fail("record", f"`{name}` must be a string, found {kind(value)}")
    return value


def _endpoint(top: Mapping[str, Any], name: str, end: str, layout: Layout, limits: ReaderLimits) -> str:
    """The id of a node: a text, or the value of its key."""
    if name not in top:
        _fail("required", f"{layout.key}: `{name}` is missing", table_key=layout.key, property=end)
    value = top[name]
    if isinstance(value, str):
        return value
    if value is None:
        text = f"{layout.key}: `{name}` must be {layout.end_kind(end)}, found null"
        _fail("required", text, table_key=layout.key, property=end)
    type_ = layout.ends.get(end)
    about = {"table_key": layout.key, "property": end, "value": recorded(value)}
    if type_ is None:
        _fail("type", f"{layout.key}: `{name}` must be a string, found {kind(value)}", **about)
    try:
        return canonical_text(type_, stored_value(type_, value, limits.blob_bytes))
    except Complaint as complaint:
        _fail("type", f"{layout.key}: `{name}` {complaint.sentence}", **about)


def _record(layout: Layout, endpoints: tuple[str, ...], data: Mapping[str, Any], limits: ReaderLimits) -> Record:
    if layout.vector_bytes > limits.vector_bytes:
        raise FaultyRecord(width_fault(layout, limits))
    properties = layout.properties
    for name in data:
        if name not in properties and name != "id":
            _undeclared(layout, name)
    stated_id = data.get("id")
    if "id" in data and not isinstance(stated_id, str):
        text = f"{layout.key}: `id` must be a string, found {kind(stated_id)}"
        _fail("id", text, table_key=layout.key, property="id", value=recorded(stated_id))
    defaults = layout.defaults
    values = []
    for name, prop in properties.items():
        value = data.get(name)
        if value is not None:
            try:
                value = stored_value(prop.type, value, limits.blob_bytes)
            except Complaint as complaint:
                raise FaultyRecord(_misfit(layout, name, data, complaint)) from None
        elif name in defaults and name not in data:
            value = defaults[name]
        elif layout.requires(prop):
            raise FaultyRecord(null_fault(layout, name, _likely_id(layout, data), is_absent=name not in data))
        values.append(value)
    return Record(layout, _checked_id(layout, values, stated_id), endpoints, values)


def _undeclared(layout: Layout, name: str) -> NoReturn:
    text = f"unknown member `{clip(name)}` of {layout.key}"
    if layout.is_reserved(name):
        _fail("record", f"{text}: the name is reserved", table_key=layout.key)
    _fail("record", text, table_key=layout.key, hint=did_you_mean(name, layout.properties))


def _misfit(layout: Layout, name: str, data: Mapping[str, Any], complaint: Complaint) -> Fault:
    return value_fault(layout, name, _likely_id(layout, data), recorded(data[name]), complaint)


def width_fault(layout: Layout, limits: ReaderLimits) -> Fault:
    """A row whose vectors exceed the limit, with any content."""
    actual, limit = layout.vector_bytes, limits.vector_bytes
    text = f"the vectors of a row of {layout.key} take {actual} bytes, null or not, and a row may take {limit}"
    excess = Excess("vector_bytes", limit, actual)
    return Fault(rule="limit", message=text, table_key=layout.key, hint="declare vectors of fewer dimensions", excess=excess)


def value_fault(layout: Layout, name: str, id_: str | None, value: str | None, complaint: Complaint) -> Fault:
    """A value that its property cannot hold."""
    return Fault(
        rule=complaint.rule,
        message=f"{layout.named(name)} {complaint.sentence}",
        table_key=layout.key,
        id=id_,
        property=name,
        value=value,
        excess=complaint.excess,
    )


def null_fault(layout: Layout, name: str, id_: str | None, *, is_absent: bool) -> Fault:
    """A property that must have a value and has none."""
    text = "is required, but absent, and cannot be null" if is_absent else "is required and cannot be null"
    return Fault(rule="required", message=f"{layout.named(name)} {text}", table_key=layout.key, id=id_, property=name)


def id_fault(layout: Layout, stated: str, derived: str) -> Fault:
    """An id that contradicts the key."""
    text = f"{layout.key}: `id` {shown(stated, 80)} does not match {shown(derived, 80)}, the id that follows from the key"
    return Fault(rule="id", message=text, table_key=layout.key, id=derived, property="id", value=recorded(stated))


def _checked_id(layout: Layout, values: list[Any], stated: str | None) -> str | None:
    if layout.node_with_key is None or stated is None:
        return stated
    derived = key_id(layout.node_with_key, dict(zip(layout.properties, values, strict=True)))
    if stated != derived:
        raise FaultyRecord(id_fault(layout, stated, derived))
    return stated


def _likely_id(layout: Layout, data: Mapping[str, Any]) -> str | None:
    """The id of a refused record for its report, if it can be derived."""
    stated, node = data.get("id"), layout.node_with_key
    if node is None or node.key is None:
        return stated if isinstance(stated, str) else None
    try:
        return key_id(node, {name: stored_value(node.properties[name].type, data.get(name)) for name in node.key})
    except Complaint:
        return None


def _fail(rule: str, text: str, **fields: Any) -> NoReturn:
    raise FaultyRecord(Fault(rule=rule, message=text, **fields))


# From records to columns


@dataclass
class RecordRows:
    """Records of one type, gathered until they become columns."""

    layout: Layout
    lines: list[int] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    def add(self, line: int, record: Record) -> None:
        self.lines.append(line)
        self.records.append(record)

    def to_part(self) -> LayoutPart:
        layout, records = self.layout, self.records
        columns = {"id": pa.array([record.id for record in records], pa.string())}
        for position, name in enumerate(("src", "dst") if layout.is_edge else ()):
            columns[name] = pa.array([record.endpoints[position] for record in records], pa.string())
        for position, (name, type_) in enumerate(layout.value_types.items()):
            columns[name] = pa.array([record.values[position] for record in records], type_)
        return LayoutPart(np.array(self.lines, dtype=np.int64), with_key_ids(layout, columns))
