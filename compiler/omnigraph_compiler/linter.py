"""Lint: check a query file against a schema and report errors, warnings and remarks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from omnigraph_compiler import ir
from omnigraph_compiler.arguments import checked
from omnigraph_compiler.diagnostics import CompileError, Diagnostic
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.compile import Query, compile_parsed
from omnigraph_compiler.query.parse import parse_queries
from omnigraph_compiler.schema.catalog import Catalog

Severity = Literal["error", "warning", "info"]
_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
_UNNAMED = "<text>"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of linting one query."""

    name: str
    kind: Literal["read", "mutation"]
    query: Query | None
    """The compiled query, if it type-checks."""
    diagnostic: Diagnostic | None
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": self.name, "kind": self.kind, "status": "error" if self.diagnostic else "ok"}
        if self.warnings:
            entry["warnings"] = list(self.warnings)
        if self.diagnostic is not None:
            entry["error"] = self.diagnostic.message
        if self.query is not None:
            entry["operation"] = self.query.operation.to_dict()
        return entry


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about the file as a whole."""

    severity: Severity
    code: str
    message: str
    _: KW_ONLY
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()
    diagnostic: Diagnostic | None = None

    def to_dict(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"severity": self.severity, "code": self.code, "message": self.message}
        if self.type_name is not None:
            entry["type_name"] = self.type_name
        if self.property is not None:
            entry["property"] = self.property
        if self.query_names:
            entry["query_names"] = list(self.query_names)
        return entry

    def sort_key(self) -> tuple[int, str, str, str]:
        return (_SEVERITIES.index(self.severity), self.type_name or "", self.property or "", self.message)


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of linting one file."""

    results: tuple[QueryResult, ...]
    findings: tuple[Finding, ...]
    schema_source: tuple[tuple[str, str], ...]
    query_path: str

    @property
    def errors(self) -> int:
        return sum(result.diagnostic is not None for result in self.results) + self._count("error")

    @property
    def warnings(self) -> int:
        return sum(len(result.warnings) for result in self.results) + self._count("warning")

    @property
    def infos(self) -> int:
        return self._count("info")

    @property
    def status(self) -> Literal["ok", "error"]:
        return "error" if self.errors else "ok"

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Every error with its position, in file order."""
        candidates = [finding.diagnostic for finding in self.findings] + [result.diagnostic for result in self.results]
        return tuple(diagnostic for diagnostic in candidates if diagnostic is not None)

    def _count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "schema_source": dict(self.schema_source),
            "query_path": self.query_path,
            "queries_processed": len(self.results),
            "errors": self.errors,
            "warnings": self.warnings,
            "infos": self.infos,
            "results": [result.to_dict() for result in self.results],
            "findings": [finding.to_dict() for finding in self.findings],
        }


@checked(catalog=Catalog, text=str, schema_path=str, query_path=str)
def lint(catalog: Catalog, text: str, *, schema_path: str = _UNNAMED, query_path: str = _UNNAMED) -> Report:
    """Check every query of a `.gq` text against a catalog. Errors in the text are reported, not raised.

    >>> from omnigraph_compiler import compile_schema
    >>> report = lint(compile_schema("node Port { code: String @key }"), "query q() { match { $p: Prot } return { $p } }")
    >>> report.status, report.results[0].diagnostic.code
    ('error', 'T1')
    """
    source = (("kind", "file"), ("path", schema_path))
    try:
        file = parse_queries(text)
    except CompileError as error:
        finding = Finding("error", "Q000", error.message, diagnostic=error.diagnostic)
        return Report((), (finding,), source, query_path)
    results = tuple(_check(catalog, text, query) for query in file.queries)
    findings = sorted([*_unassigned(catalog, results), *_parallel(catalog, results)], key=Finding.sort_key)
    return Report(results, tuple(findings), source, query_path)


def _check(catalog: Catalog, text: str, parsed: ast.Query) -> QueryResult:
    kind: Literal["read", "mutation"] = "read" if isinstance(parsed.body, ast.Read) else "mutation"
    name = parsed.name.text
    warnings: tuple[str, ...] = ()
    if kind == "mutation" and not parsed.params:
        warnings = (f"mutation `{name}` declares no params: every run writes the same values",)
    try:
        query = compile_parsed(catalog, text, parsed)
    except CompileError as error:
        return QueryResult(name, kind, None, error.diagnostic, warnings)
    return QueryResult(name, kind, query, None, warnings)


def _unassigned(catalog: Catalog, results: Iterable[QueryResult]) -> Iterable[Finding]:
    """L201: nullable properties that no update of their type sets."""
    updaters: dict[str, set[str]] = {}
    assigned: dict[str, set[str]] = {}
    for result in results:
        plan = result.query.plan if result.query else None
        for statement in plan.statements if isinstance(plan, ir.WritePlan) else ():
            if isinstance(statement, ir.Update):
                updaters.setdefault(statement.type, set()).add(result.name)
                assigned.setdefault(statement.type, set()).update(assign.property for assign in statement.assignments)
    for type_name, names in updaters.items():
        for prop in catalog.nodes[type_name].properties.values():
            if prop.type.nullable and prop.embed is None and prop.name not in assigned[type_name]:
                message = f"`{type_name}.{prop.name}` is nullable, but no update query of `{type_name}` sets it"
                yield Finding(
                    "warning",
                    "L201",
                    message,
                    type_name=type_name,
                    property=prop.name,
                    query_names=tuple(sorted(names)),
                )


def _parallel(catalog: Catalog, results: Iterable[QueryResult]) -> Iterable[Finding]:
    """L202: edge types that queries insert and that have no unique constraint on both ends."""
    inserters: dict[str, set[str]] = {}
    for result in results:
        plan = result.query.plan if result.query else None
        for statement in plan.statements if isinstance(plan, ir.WritePlan) else ():
            if isinstance(statement, ir.Insert) and statement.type_kind == "edge":
                inserters.setdefault(statement.type, set()).add(result.name)
    for type_name, names in inserters.items():
        if not any({"src", "dst"} <= set(columns) for columns in catalog.edges[type_name].unique):
            message = (
                f"edges of `{type_name}` with the same ends are not unique: repeated inserts, and loads that merge, make "
                "parallel edges; declare `@unique(src, dst)` to prevent them"
            )
            yield Finding("info", "L202", message, type_name=type_name, query_names=tuple(sorted(names)))
