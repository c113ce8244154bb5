"""Compiler of the omnigraph languages: `.pg` schemas and `.gq` queries, from text to checked IR.

Pure: text in, frozen values out. No files, no engine, no dependency but lark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph_compiler.diagnostics import CompileError, Diagnostic
    from omnigraph_compiler.format.query import format_queries
    from omnigraph_compiler.format.schema import format_schema
    from omnigraph_compiler.json_decoder import decode_source
    from omnigraph_compiler.linter import Report, lint
    from omnigraph_compiler.query.compile import Query, compile_queries, compile_query
    from omnigraph_compiler.query.descriptor import Column, Operation
    from omnigraph_compiler.query.params import bind_params
    from omnigraph_compiler.schema.build_catalog import compile_schema
    from omnigraph_compiler.schema.catalog import Catalog, EdgeType, InterfaceType, NodeType, Property
    from omnigraph_compiler.schema.identity import entity_id
    from omnigraph_compiler.schema.migration import MigrationPlan, plan_migration
    from omnigraph_compiler.types import PropType

__all__ = [
    "Catalog",
    "Column",
    "CompileError",
    "Diagnostic",
    "EdgeType",
    "InterfaceType",
    "MigrationPlan",
    "NodeType",
    "Operation",
    "PropType",
    "Property",
    "Query",
    "Report",
    "bind_params",
    "compile_queries",
    "compile_query",
    "compile_schema",
    "decode_source",
    "entity_id",
    "format_queries",
    "format_schema",
    "lint",
    "plan_migration",
]

# Most users need a few of these names, and importing all of them takes a tenth of a second.
_LAZY = {
    "Catalog": "schema.catalog",
    "Column": "query.descriptor",
    "CompileError": "diagnostics",
    "Diagnostic": "diagnostics",
    "EdgeType": "schema.catalog",
    "InterfaceType": "schema.catalog",
    "MigrationPlan": "schema.migration",
    "NodeType": "schema.catalog",
    "Operation": "query.descriptor",
    "PropType": "types",
    "Property": "schema.catalog",
    "Query": "query.compile",
    "Report": "linter",
    "bind_params": "query.params",
    "compile_queries": "query.compile",
    "compile_query": "query.compile",
    "compile_schema": "schema.build_catalog",
    "decode_source": "json_decoder",
    "entity_id": "schema.identity",
    "format_queries": "format.query",
    "format_schema": "format.schema",
    "lint": "linter",
    "plan_migration": "schema.migration",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
