"""Conflicts of a merge on the screen and as JSON."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_sql.cli import output
from omnigraph_sql.cli.tables import one_line

if TYPE_CHECKING:
    from omnigraph_sql.cli.output import StyledLine
    from omnigraph_sql.writes.merge.conflicts import MergeConflict

_MOST = 100
"""Conflicts that are printed; JSON has all of them."""
_LONGEST = 100
"""Characters of a value."""
_SIDES = (("base", "gutter"), ("ours", "good"), ("theirs", "help"))


def write_conflicts(conflicts: Sequence[MergeConflict]) -> None:
    """Print conflicts: what is wrong with which row, and what base, target and source have."""
    for conflict in conflicts[:_MOST]:
        output.write_styled([*_lines(conflict), []])
    if len(conflicts) > _MOST:
        output.write(f"and {len(conflicts) - _MOST} more; --json prints all of them\n\n")


def conflict_document(conflict: MergeConflict) -> dict[str, Any]:
    """A conflict as JSON values."""
    return {name: json_value(value) for name, value in conflict.to_dict().items()}


def json_value(value: Any) -> Any:
    """A value of a row as JSON: dates and times as texts, bytes as `base64:` and their encoding."""
    if isinstance(value, Mapping):
        return {str(name): json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    if isinstance(value, bytes):
        return "base64:" + base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value


def _lines(conflict: MergeConflict) -> Iterator[StyledLine]:
    name = conflict.type_name if conflict.id is None else f"{conflict.type_name} {conflict.id}"
    yield [("error", conflict.kind), ("bold", f"  {one_line(name)}")]
    yield [("source", f"  {one_line(conflict.message)}")]
    images = {side: getattr(conflict, side) for side, _ in _SIDES}
    if not any(image is not None for image in images.values()):
        return
    for prop in _properties(conflict, images):
        yield [("source", f"  {one_line(prop)}")]
        for side, style in _SIDES:
            yield [(style, f"    {side:<7}"), ("source", _shown(images[side], prop))]


def _properties(conflict: MergeConflict, images: Mapping[str, Mapping[str, Any] | None]) -> Sequence[str]:
    """The properties in question; where nobody named them, those in which the sides differ."""
    if conflict.properties:
        return conflict.properties
    present = [image for image in images.values() if image is not None]
    names = dict.fromkeys(name for image in present for name in image if name != "id")
    differing = [name for name in names if any(image.get(name) != present[0].get(name) for image in present)]
    return differing or list(names)


def _shown(image: Mapping[str, Any] | None, prop: str) -> str:
    if image is None:
        return "(no such row)"
    text = one_line(json.dumps(json_value(image.get(prop)), ensure_ascii=False, default=str))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
