"""Bundles: exports that begin with the schema of their records, so that a graph can be made of one.

The first line is `{"omnigraph": {...}}`; the records follow. It also counts the rows of each type, by which a bundle that
was cut short is recognised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph_sql.errors import BadRequest, UnsupportedFormat
from omnigraph_sql.json_members import DuplicateMember, refuse_constant, unique_members

FORMAT: Final = 1
_HEADER: Final = re.compile(rb'\s*\{\s*"omnigraph"\s*:')
_HINT: Final = "export the graph again with its schema; records alone are loaded without this line"


@dataclass(frozen=True, kw_only=True)
class BundleHeader:
    """The first line of a bundle."""

    schema: str
    """The text of the schema."""
    rows: Mapping[str, int]
    """The number of records by table key."""
    commit_id: str | None = None
    """The commit that was exported."""
    omits: tuple[str, ...] = field(default=())
    """Relational tables and views of the graph, which are not in the bundle."""

    def to_json(self) -> str:
        """The line, without its end."""
        entry: dict[str, Any] = {"format": FORMAT, "schema": self.schema, "rows": dict(self.rows)}
        if self.commit_id is not None:
            entry["commit_id"] = self.commit_id
        if self.omits:
            entry["omits"] = list(self.omits)
        return json.dumps({"omnigraph": entry}, ensure_ascii=False, separators=(",", ":"))


def is_header(data: bytes) -> bool:
    """True if a text begins as a bundle does."""
    return _HEADER.match(data) is not None


def read_header(line: bytes) -> BundleHeader:
    """The header in the first line of a bundle. `BadRequest` if it cannot be read, `UnsupportedFormat` if it is newer."""
    try:
        top = json.loads(line.decode("utf-8"), object_pairs_hook=unique_members, parse_constant=refuse_constant)
        entry = top["omnigraph"]
        version = entry["format"]
        if type(version) is int and version > FORMAT:
            text = f"the bundle has format {version}, this release understands up to {FORMAT}: upgrade first"
            raise UnsupportedFormat(text, actual=str(version), supported=str(FORMAT))
        if len(top) != 1 or version != FORMAT:
            raise ValueError("it has no format that there is")
        header = BundleHeader(
            schema=_checked(entry, "schema", str),
            rows={key: _checked(entry["rows"], key, int) for key in _checked(entry, "rows", dict)},
            commit_id=None if entry.get("commit_id") is None else _checked(entry, "commit_id", str),
            omits=tuple(str(name) for name in entry.get("omits", ())),
        )
        header.schema.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, DuplicateMember) as error:
        reason = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else str(error)
        raise BadRequest(f"line 1: the header of the bundle cannot be read: {reason}", hint=_HINT) from None
    return header


def require_complete(header: BundleHeader, rows: Mapping[str, int]) -> None:
    """Raise unless the records that were read, counted by table key, are all that the header counts."""
    for key in sorted({*rows, *header.rows}):
        wanted, there = header.rows.get(key, 0), rows.get(key, 0)
        if wanted != there:
            raise BadRequest(f"the bundle has {there} records of {key}, and its header says {wanted}", hint=_HINT)


def _checked(entry: Any, name: str, kind: type) -> Any:
    value = entry[name]
    if type(value) is not kind:
        raise ValueError(f"`{name}` is {type(value).__name__}, where {kind.__name__} is expected")
    return value
