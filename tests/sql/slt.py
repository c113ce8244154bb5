"""Reads `.slt` files: statements with the rows or the error that they give, on every engine.

    # Whatever follows a number sign at the beginning of a line is a comment.
    query [unordered]          a statement that gives rows
    statement error KIND       a statement that fails
    execute ok [ROWS]          a script that writes, and how many rows it affects
    execute error KIND         a script that writes, and fails
    graph                      the records after it are about a new graph
    params {"name": 1}         before the statement: values of its parameters
    at BRANCH                  before the statement: on another branch, version (main@3) or commit
    skipif ENGINE REASON       before the statement: it is not run there

The statement follows, up to a line of four hyphens or an empty line. After the hyphens come the rows, one a line, with tabs
between values or, for an error, texts that its message and hint hold.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Record:
    """A statement and what it gives."""

    path: Path
    line: int
    kind: str = ""
    error: str = ""
    statement: str = ""
    expected: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    at: str = "main"
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.path.stem}-{self.line}"


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file."""
    lines = path.read_text("utf-8").splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        end = at
        while end < len(lines) and lines[end].strip():
            end += 1
        yield _record(path, at + 1, lines[at:end])
        at = end


def _record(path: Path, line: int, lines: list[str]) -> Record:
    record = Record(path, line)
    rest = iter(lines)
    for each in rest:
        word, _, value = each.partition(" ")
        if word == "params":
            record.params = json.loads(value)
        elif word == "at":
            record.at = value
        elif word == "skipif":
            engine, _, reason = value.partition(" ")
            assert reason, f"{path}:{line}: say why it is not run on {engine}"
            record.skipped[engine] = reason
        elif word in ("query", "statement"):
            record.kind = value if word == "query" else "error"
            record.error = value.removeprefix("error ") if word == "statement" else ""
            break
        elif word == "execute":
            state, _, record.error = value.partition(" ")
            record.kind = f"execute {state}"
            break
        elif word == "graph":
            record.kind = "graph"
            return record
        else:
            raise AssertionError(f"{path}:{line}: there is no directive `{word}`")
    body = list(rest)
    cut = body.index("----") if "----" in body else len(body)
    record.statement, record.expected = "\n".join(body[:cut]), body[cut + 1 :]
    assert record.statement or record.kind == "graph", f"{path}:{line}: there is no statement"
    return record


def shown(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as files have them."""
    return ["\t".join(_value(each) for each in row.values()) for row in rows]


def _value(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return value if value else "(empty)"
        case decimal.Decimal() | float():
            return str(int(value)) if value == int(value) else repr(round(float(value), 6))
        case datetime.datetime():
            return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case list() | dict():
            return json.dumps(value)
    return str(value)
