"""From query text to a checked, lowered query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from omnigraph_compiler import ir
from omnigraph_compiler.arguments import checked
from omnigraph_compiler.diagnostics import CompileError, Diagnostic, Reporter, clip, did_you_mean, listing
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.bounds import check_size
from omnigraph_compiler.query.descriptor import Column, Operation, describe_read, describe_write
from omnigraph_compiler.query.lower import lower_read
from omnigraph_compiler.query.parse import parse_queries
from omnigraph_compiler.query.read import check_read
from omnigraph_compiler.query.scope import Fail, Scope, check_params
from omnigraph_compiler.query.write import check_write
from omnigraph_compiler.schema.catalog import Catalog
from omnigraph_compiler.source import SourceText
from omnigraph_compiler.types import PropType


@dataclass(frozen=True, kw_only=True)
class Query:
    """A compiled query. Make one with `compile_query`."""

    name: str
    kind: Literal["read", "mutation"]
    params: Mapping[str, PropType]
    """Declared parameters in order."""
    plan: ir.Plan
    operation: Operation
    uses_now: bool
    """True if the plan refers to the parameter `__now`, which the caller sets once per execution."""
    description: str | None = None
    instruction: str | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.operation.result

    @cached_property
    def ir_hash(self) -> str:
        return ir.plan_hash(self.plan)

    def to_dict(self) -> dict[str, Any]:
        """Return name, parameters and plan as canonical JSON values."""
        entry: dict[str, Any] = {
            "name": self.name,
            "params": [{"name": name, "type": type_.display} for name, type_ in self.params.items()],
            "columns": [{"name": column.name, "type": column.type.display} for column in self.columns],
            "plan": ir.plan_json(self.plan),
            "hash": self.ir_hash,
        }
        notes = {"description": self.description, "instruction": self.instruction}
        return entry | {name: text for name, text in notes.items() if text is not None}


@checked(catalog=Catalog, text=str, name=(str, type(None)))
def compile_query(catalog: Catalog, text: str, name: str | None = None) -> Query:
    """Compile one query of a `.gq` text: the one called `name`, else the first.

    The whole text must parse; only the chosen query is type-checked. Raises `CompileError`.

    >>> from omnigraph_compiler import compile_schema
    >>> catalog = compile_schema("node Port { code: String @key depth: F64? }")
    >>> query = compile_query(catalog, "query deep() { match { $p: Port $p.depth > 10 } return { $p.code } }")
    >>> [(column.name, str(column.type)) for column in query.columns]
    [('p.code', 'String')]
    """
    return compile_parsed(catalog, text, find_query(parse_queries(text), name))


@checked(catalog=Catalog, text=str)
def compile_queries(catalog: Catalog, text: str) -> tuple[Query, ...]:
    """Compile every query of a `.gq` text, in order."""
    return tuple(compile_parsed(catalog, text, query) for query in parse_queries(text).queries)


def find_query(file: ast.File, name: str | None) -> ast.Query:
    if name is None and file.queries:
        return file.queries[0]
    for query in file.queries:
        if query.name.text == name:
            return query
    names = [query.name.text for query in file.queries]
    if name is None:
        raise CompileError(Diagnostic("input", "the file contains no query"))
    help_text = did_you_mean(name, names) or (f"the file has {listing(names)}" if names else "the file contains no query")
    raise CompileError(Diagnostic("input", f"there is no query `{clip(name)}`", help=help_text))


def compile_parsed(catalog: Catalog, text: str, query: ast.Query) -> Query:
    fail = Fail(Reporter(SourceText(text)))
    check_size(fail.report, query)
    scope = Scope(catalog, fail, check_params(fail, query.params))
    kind: Literal["read", "mutation"]
    plan: ir.Plan
    if isinstance(query.body, ast.Read):
        kind = "read"
        resolved = check_read(scope, query.body)
        plan = lower_read(scope, resolved)
        operation = describe_read(resolved.block, resolved.items)
    else:
        kind = "mutation"
        plan = check_write(scope, query, query.body)
        operation = describe_write(catalog, plan)
    notes = {meta.name: meta.value for meta in query.metas}
    return Query(
        name=query.name.text,
        kind=kind,
        params=MappingProxyType(dict(scope.params)),
        plan=plan,
        operation=operation,
        uses_now=bool(scope.uses_now),
        description=notes.get("description"),
        instruction=notes.get("instruction"),
    )
