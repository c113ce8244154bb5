"""The input of a command that runs a query or statement: its text and its parameters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from omnigraph_sql.cli.source_files import load_text, read_bytes, rejections
from omnigraph_sql.cli.target import usage_error
from omnigraph_sql.errors import BadRequest


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A query text and what to call the place it came from."""

    text: str
    path: str


def query_source(path: str | None, text: str | None) -> QuerySource:
    """The queries, from a file or from the command line."""
    if (path is None) == (text is None):
        raise usage_error("name the query with either --query FILE or -e GQ")
    return QuerySource(load_text(path), path) if path is not None else QuerySource(text or "", "<-e>")


def parameters(text: str | None, path: str | None) -> dict[str, Any]:
    """The parameters, from a file or from the command line."""
    if text is not None and path is not None:
        raise usage_error("--params and --params-file exclude each other")
    if path is not None:
        from omnigraph_compiler import decode_source

        data = read_bytes(path)
        with rejections(path):
            return _json_object(decode_source(data), f"the file `{path}`")
    return {} if text is None else _json_object(text, "--params")


def _json_object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{where} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"{where} must hold a JSON object of names and values", hint='for example {"depth": 12.5}')
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON value")
