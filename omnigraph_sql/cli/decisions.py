"""Decisions about the conflicts of a merge, from `--resolve`."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any, NoReturn

from omnigraph_sql.cli.source_files import read_bytes, read_standard_input
from omnigraph_sql.errors import BadRequest, Configuration, NotFound

_SIDES = ("ours", "theirs")
_STANDARD_INPUT = "-"
_LINES = (".jsonl", ".ndjson")
_HINT = (
    "write a list of decisions such as `- {type: Port, id: NLRTM, take: theirs}`, or a mapping such as `Port: theirs` or "
    "`Port: {NLRTM: theirs}`"
)


def read_decisions(source: str | None) -> Any:
    """The decisions of `--resolve`: a side, or what a file says, as `Graph.merge` takes it."""
    if source is None or source in _SIDES:
        return source
    where = "standard input" if source == _STANDARD_INPUT else f"the file `{source}`"
    try:
        data = read_standard_input() if source == _STANDARD_INPUT else read_bytes(source)
    except NotFound as error:
        error.hint = error.hint or "give ours, theirs, or the path of a file of decisions"
        raise
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequest(f"{where} is not UTF-8", hint="save it as UTF-8") from None
    value = _parsed(text, source, where)
    if isinstance(value, str) and value in _SIDES:
        return value
    if isinstance(value, dict):
        return [value] if {"take", "values"} & value.keys() else _from_mapping(value, where)
    if isinstance(value, list):
        return value
    raise BadRequest(f"{where} holds no decisions", hint=_HINT)


def _parsed(text: str, source: str, where: str) -> Any:
    suffix = PurePath(source).suffix.lower()
    try:
        if suffix == ".json":
            return _json(text)
        if suffix in _LINES:
            return _json_lines(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{where} is not JSON: {error}", hint=_HINT) from None
    if suffix not in (".yaml", ".yml"):
        for parse in (_json, _json_lines):
            try:
                return parse(text)
            except (ValueError, RecursionError):
                continue
    return _yaml(text, "standard input" if source == _STANDARD_INPUT else source)


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _json_lines(text: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = _json(line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is no object")
            rows.append(row)
    return rows


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON value")


def _yaml(text: str, path: str) -> Any:
    from omnigraph_sql.yaml_files import parse_yaml

    try:
        return parse_yaml(text, path)
    except Configuration as error:
        raise BadRequest(error.message, hint=error.hint) from None


def _from_mapping(value: dict[Any, Any], where: str) -> dict[Any, Any]:
    """The mapping that `Graph.merge` takes: rows, which a file names below their type, as pairs of type and id."""
    decisions: dict[Any, Any] = {}
    for key, side in value.items():
        if not isinstance(side, dict):
            decisions[key] = side
            continue
        for row_id, decision in side.items():
            if not isinstance(row_id, str):
                text = f"{where} names `{row_id}` of {key}, where the text of an id is expected"
                raise BadRequest(text, hint="put quotes around it")
            decisions[key, row_id] = decision
    return decisions
