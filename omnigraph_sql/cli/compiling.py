"""`ogsql compile`: what the compiler makes of a query file, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omnigraph_compiler import Catalog, Query
from omnigraph_compiler.canonical import tagged
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.compile import compile_parsed, find_query
from omnigraph_compiler.query.parse import parse_queries
from omnigraph_sql.cli import output
from omnigraph_sql.cli.sources import load_catalog, load_text, rejections


def run(schema_path: str, query_path: str, *, name: str | None, emit: str) -> int:
    """Print one query, or all of them as `{"queries": [...]}`."""
    catalog = load_catalog(schema_path)
    text = load_text(query_path)
    show = _EMITTERS[emit]
    with rejections(query_path):
        file = parse_queries(text)
        if name is not None:
            document = show(catalog, text, find_query(file, name))
        else:
            document = {"queries": [show(catalog, text, query) for query in file.queries]}
    output.write_json(document)
    return 0


def _tree(catalog: Catalog, text: str, parsed: ast.Query) -> dict[str, Any]:  # noqa: ARG001
    tree: dict[str, Any] = tagged(parsed)
    return tree


def _ir(catalog: Catalog, text: str, parsed: ast.Query) -> dict[str, Any]:
    return compile_parsed(catalog, text, parsed).to_dict()


def _descriptor(catalog: Catalog, text: str, parsed: ast.Query) -> dict[str, Any]:
    query: Query = compile_parsed(catalog, text, parsed)
    return {"name": query.name, "kind": query.kind, **query.operation.to_dict()}


_EMITTERS: dict[str, Callable[[Catalog, str, ast.Query], dict[str, Any]]] = {
    "ir": _ir,
    "ast": _tree,
    "descriptor": _descriptor,
}
