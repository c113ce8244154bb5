"""`ogsql compile`: what the compiler makes of a query file, as JSON or as SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omnigraph_compiler import Catalog, Query, ir
from omnigraph_compiler.canonical import tagged
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.compile import compile_parsed, find_query
from omnigraph_compiler.query.parse import parse_queries
from omnigraph_sql.cli import output
from omnigraph_sql.cli.source_files import load_catalog, load_text, rejections
from omnigraph_sql.errors import BadRequest


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


def sql(schema_path: str, query_path: str, *, name: str | None, dialect: str, as_json: bool) -> int:
    """Print the SQL of one query, or of all of them, as text or within JSON."""
    from omnigraph_sql.planner.sql_script import script

    catalog = load_catalog(schema_path)
    text = load_text(query_path)
    with rejections(query_path):
        file = parse_queries(text)
        chosen = file.queries if name is None else (find_query(file, name),)
        queries = [compile_parsed(catalog, text, parsed) for parsed in chosen]
    scripts = {query.name: script(query.name, _read_plan(query), catalog, dialect) for query in queries}
    if as_json:
        documents = [{"name": query_name, "dialect": dialect, "sql": text} for query_name, text in scripts.items()]
        output.write_json({"queries": documents} if name is None else documents[0])
    else:
        output.write("\n\n".join(scripts.values()) + "\n")
    return 0


def _read_plan(query: Query) -> ir.ReadPlan:
    if isinstance(query.plan, ir.ReadPlan):
        return query.plan
    hint = "mutations are not run as SQL; choose a read query with --query"
    raise BadRequest(f"`{query.name}` is a mutation", hint=hint)


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
