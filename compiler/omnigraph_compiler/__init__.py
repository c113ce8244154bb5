"""Compiler of the omnigraph languages: `.pg` schemas and `.gq` queries, from text to checked IR.

Pure: text in, frozen values out. No files, no engine, no dependency but lark.
"""

from omnigraph_compiler.decoding import decode_source
from omnigraph_compiler.diagnostics import CompileError, Diagnostic
from omnigraph_compiler.format.query import format_queries
from omnigraph_compiler.format.schema import format_schema
from omnigraph_compiler.lint import Report, lint
from omnigraph_compiler.query.compile import Query, compile_queries, compile_query
from omnigraph_compiler.query.descriptor import Column, Operation
from omnigraph_compiler.query.params import bind_params
from omnigraph_compiler.schema.build import compile_schema
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
