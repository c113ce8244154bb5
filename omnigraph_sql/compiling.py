"""Queries of one graph, compiled against its schema and kept."""

from __future__ import annotations

from pathlib import Path

from omnigraph_compiler import CompileError, Query, compile_query
from omnigraph_sql.engines.kept import Kept
from omnigraph_sql.errors import BadRequest, Compile
from omnigraph_sql.writes.engine import Engine

_QUERIES = 256


class Compiler:
    """Compiles what a graph is asked, each text once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: Kept[tuple[str, str, str | None], Query] = Kept(_QUERIES)

    def query(self, source: str | Path, name: str | None) -> Query:
        """A query of a text or file."""
        text = source.read_text("utf-8") if isinstance(source, Path) else source
        catalog = self._engine.catalog
        try:
            return self._kept.get((catalog.schema_hash, text, name), lambda: compile_query(catalog, text, name))
        except CompileError as error:
            if error.error_class == "input":
                raise BadRequest(error.message, diagnostics=(error.diagnostic,), code=error.code, hint=error.hint) from None
            raise Compile(
                error.message,
                error_class=error.error_class,
                span=error.span,
                diagnostics=(error.diagnostic,),
                code=error.code,
                hint=error.hint,
            ) from None
