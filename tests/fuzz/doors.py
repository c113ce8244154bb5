"""The doors of the compiler that take text from outside, and what must hold at each of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from omnigraph_compiler import (
    Catalog,
    CompileError,
    compile_queries,
    compile_query,
    compile_schema,
    format_queries,
    format_schema,
    lint,
)
from tests.property.diagnostics import check_diagnostic

SECONDS = 1.0
"""Processor time that one call may take. A guard against hanging, not a measure of speed."""

SCHEMA = """
interface Named { title: String @index }
node Port implements Named {
  code: String @key
  depth: F64?
  opened: Date?
  seen: DateTime?
  tags: [String]?
  kind: enum(river, sea)
  v: Vector(2)? @embed(title) @metric("cosine")
  scan: Blob?
  @range(depth, -5..12000.5)
  @check(code, "^[A-Z]+$")
}
node Ship { name: String  crew: I32? @default(3) }
edge Lane: Port -> Port { nm: I32?  note: String? @unique(src, dst) }
edge HomedAt: Ship -> Port @card(0..1)
"""
CATALOG: Catalog = compile_schema(SCHEMA)

Door = Callable[[str], Any]
SCHEMA_DOORS: dict[str, Door] = {"compile_schema": compile_schema, "format_schema": format_schema}
QUERY_DOORS: dict[str, Door] = {
    "compile_queries": lambda text: compile_queries(CATALOG, text),
    "compile_query": lambda text: compile_query(CATALOG, text, "q"),
    "format_queries": format_queries,
}


def rejection(call: Callable[[], object]) -> CompileError | None:
    """The `CompileError` that a call raises, if any. Any other exception is a defect and passes through."""
    try:
        call()
    except CompileError as error:
        return error
    return None


@contextmanager
def taking_less_than(seconds: float) -> Iterator[None]:
    """Bounds the processor time of a block, without that of collecting what thousands of other tests have left."""
    gc.disable()
    try:
        start = time.thread_time()
        yield
        spent = time.thread_time() - start
    finally:
        gc.enable()
    assert spent < seconds, f"{spent:.1f} s of processor time"


def enter(door: Door, text: str, *, seconds: float = SECONDS) -> CompileError | None:
    """Call a door. The only exception it may raise is a `CompileError`, which can be shown; it is returned."""
    with taking_less_than(seconds):
        found = rejection(lambda: door(text))
    if found is not None:
        assert str(found)
        if found.diagnostic.position is not None:
            check_diagnostic(found.diagnostic, text)
        else:
            # There is no query of that name: nothing to point at.
            assert found.error_class == "input"
            assert found.diagnostic.render()
    return found


def enter_all(text: str, *, seconds: float = SECONDS) -> None:
    """Every door, with a text that may be anything. Doors of one language agree on whether the text parses."""
    compiled, formatted = (enter(door, text, seconds=seconds) for door in SCHEMA_DOORS.values())
    if compiled is None:
        assert formatted is None
    _, _, laid_out = (enter(door, text, seconds=seconds) for door in QUERY_DOORS.values())
    with taking_less_than(seconds):
        report = lint(CATALOG, text)
    assert report.to_dict()["status"] in ("ok", "error")
    assert (laid_out is None) == (not any(finding.code == "Q000" for finding in report.findings))
    for diagnostic in report.diagnostics:
        check_diagnostic(diagnostic, text)
