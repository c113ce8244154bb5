"""Compiles queries against the schema of one graph, and caches them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph_compiler import CompileError
from omnigraph_sql.arguments import path
from omnigraph_sql.caches import LruCache
from omnigraph_sql.errors import BadRequest, Compile
from omnigraph_sql.storage.source_files import source_text
from omnigraph_sql.store.graph_store import GraphStore

if TYPE_CHECKING:
    from omnigraph_compiler import Query

_QUERIES = 256


@dataclass(frozen=True)
class QueryRequest:
    """A query of a text or file, and the values of its parameters."""

    source: str | Path
    name: str | None
    params: Mapping[str, Any] | None
    ignore_unknown: bool

    @classmethod
    def of(cls, source: object, name: object, params: object, *, ignore_unknown: bool) -> QueryRequest:
        """The name and the parameters of a call. Parameters may be passed in the place of the name, as for `sql`."""
        if not isinstance(source, str | Path):
            raise BadRequest(f"a query is a text or a Path, not {type(source).__name__}", hint="give the text of the query")
        if isinstance(source, Path):
            path("source", source)
        if isinstance(name, Mapping):
            if params is not None:
                hint = "give the name of the query second, as a text, and params third"
                raise BadRequest("there are two mappings of parameters: the second argument and `params`", hint=hint)
            name, params = None, name
        if name is not None and not isinstance(name, str):
            hint = "give the name of a query of the text, or params={'NAME': VALUE}"
            raise BadRequest(f"the name of a query is a text, not {type(name).__name__}", hint=hint)
        if params is not None and not isinstance(params, Mapping):
            hint = "give params={'NAME': VALUE}"
            raise BadRequest(f"params are a mapping from names to values, not {type(params).__name__}", hint=hint)
        return cls(source, name, params, ignore_unknown)


class QueryCompiler:
    """Compiles the queries of a graph, each text once."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._kept: LruCache[tuple[str, str, str | None], Query] = LruCache(_QUERIES)

    def query(self, source: str | Path, name: str | None) -> Query:
        """A query of a text or file."""
        from omnigraph_compiler import compile_query

        text = source_text(source, ".gq", "the query")
        catalog = self._store.catalog
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
