"""A schema with a property of every type, and ways to read records for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omnigraph_compiler import compile_schema
from omnigraph_sql.writes.readers import Reject, TableBatch, read_records

SCHEMA = """
node Port {
  code: String @key
  kind: enum(river, sea) @default("sea")
  depth: F64?
  draught: F32?
  crew: I32?
  tonnes: I64?
  berths: U32?
  serial: U64?
  open: Bool?
  opened: Date?
  seen: DateTime?
  tags: [String]?
  sizes: [I32]?
  days: [Date]?
  place: Vector(3)?
  photo: Blob?
  pilots: I32? @default(2)
}
node Ship { name: String  crew: I32? }
node Berth { port: String  number: I32  @key(port, number) }
node Tide { at: DateTime  height: F32  on: Date  high: Bool  @key(at, height, on, high) }
node Lane { name: String }
edge Lane: Port -> Port { nm: I32?  note: String?  since: Date @default("2000-01-01") }
edge HomedAt: Ship -> Port
"""
CATALOG = compile_schema(SCHEMA)
CROWD = 100
"""Enough lines of a type to be worth the fast way."""


def port(**data: Any) -> str:
    return node("Port", **{"code": "A", **data})


def node(type_: str, **data: Any) -> str:
    return json.dumps({"type": type_, "data": data})


def lane(**data: Any) -> str:
    return json.dumps({"edge": "Lane", "from": "A", "to": "B", "data": data})


def read(source: Any, **options: Any) -> list[TableBatch]:
    batches = list(read_records(source, CATALOG, **options))
    for batch in batches:
        batch.rows.validate(full=True)
        assert len(batch.lines) == len(batch.explicit_id) == batch.rows.num_rows
        assert not any(
            column.null_count
            for column, field in zip(batch.rows.columns, batch.rows.schema, strict=True)
            if not field.nullable
        )
    return batches


def read_one(source: Any, **options: Any) -> dict[str, Any]:
    """The only row of the only batch."""
    (batch,) = read(source, **options)
    (row,) = batch.rows.to_pylist()
    assert isinstance(row, dict)
    return row


def rows_by_line(batches: list[TableBatch]) -> dict[int, tuple[str, dict[str, Any], bool]]:
    """Table key, values and whether the id was given, of each line."""
    found = {}
    for batch in batches:
        for line, row, explicit in zip(
            batch.lines.to_pylist(), batch.rows.to_pylist(), batch.explicit_id.to_pylist(), strict=True
        ):
            assert line not in found
            found[line] = (batch.table_key, row, explicit)
    return found


def rejects_of(source: Any, **options: Any) -> list[Reject]:
    rejects: list[Reject] = []
    read(source, on_reject=rejects.append, **options)
    return rejects


def alone(line: str) -> list[str]:
    """A line that goes the exact way because there are few of its kind."""
    return [line]


def in_a_crowd(line: str) -> list[str]:
    """A line among many good ones of all types, which go the fast way; it comes last."""
    crowd = [port(code=f"c{number}") for number in range(CROWD)] + [lane(nm=number) for number in range(CROWD)]
    return [*crowd, *(node("Ship", name=f"s{number}") for number in range(CROWD)), line]


def many_of_it(line: str) -> list[str]:
    """The same line so often that the fast way sees nothing else."""
    return [line] * CROWD


both_ways = pytest.mark.parametrize("surround", [alone, in_a_crowd, many_of_it])
