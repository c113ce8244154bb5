"""Compiler of the omnigraph languages: `.pg` schemas and `.gq` queries, from text to checked IR.

Pure: text in, frozen values out. No files, no engine, no dependency but lark.
"""

from omnigraph_compiler.diagnostics import CompileError, Diagnostic
from omnigraph_compiler.lint import Report, lint
from omnigraph_compiler.query.compile import Query, compile_queries, compile_query
from omnigraph_compiler.query.descriptor import Column, Operation
from omnigraph_compiler.query.params import bind_params
from omnigraph_compiler.schema.build import compile_schema
from omnigraph_compiler.schema.catalog import Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph_compiler.schema.identity import entity_id
from omnigraph_compiler.types import PropType

__all__ = [
    "Catalog",
    "Column",
    "CompileError",
    "Diagnostic",
    "EdgeType",
    "InterfaceType",
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
    "entity_id",
    "lint",
]
