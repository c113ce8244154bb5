"""`ogsql lint`: check query files against a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from omnigraph_compiler import Catalog, CompileError, Report, decode_source, lint
from omnigraph_compiler.linter import Finding
from omnigraph_sql.cli import output
from omnigraph_sql.cli.errors import Located, error_lines
from omnigraph_sql.cli.output import StyledLine
from omnigraph_sql.cli.source_files import load_catalog, read_bytes
from omnigraph_sql.errors import Compile


def run(schema_path: str, query_paths: Sequence[str], *, as_json: bool) -> int:
    """Lint every file; 1 if there is an error in any of them."""
    try:
        catalog = load_catalog(schema_path)
    except Compile as error:
        if as_json:
            raise
        # A diagnostic is what one runs lint for, so it goes where results go.
        output.write_styled([*error_lines(error), [("error", f"{schema_path}: 1 error, no query was checked")]])
        return error.exit_code
    contents = [read_bytes(path) for path in query_paths]
    reports = [_lint_file(catalog, data, schema_path, path) for data, path in zip(contents, query_paths, strict=True)]
    if as_json:
        output.write_json(_document(reports))
    else:
        output.write_styled(line for report in reports for line in _lines(report))
    return 1 if any(report.errors for report in reports) else 0


def _lint_file(catalog: Catalog, data: bytes, schema_path: str, path: str) -> Report:
    try:
        text = decode_source(data)
    except CompileError as error:
        # The same outcome as for a text that does not parse, so that other files are still checked.
        finding = Finding("error", "Q000", error.message, diagnostic=error.diagnostic)
        return Report((), (finding,), (("kind", "file"), ("path", schema_path)), path)
    return lint(catalog, text, schema_path=schema_path, query_path=path)


def _located(report: Report) -> Iterator[Located]:
    for finding in report.findings:
        if finding.diagnostic is not None:
            yield Located(finding.diagnostic, report.query_path)
    for result in report.results:
        if result.diagnostic is not None:
            yield Located(result.diagnostic, report.query_path, result.name)


def _document(reports: Sequence[Report]) -> dict[str, Any]:
    documents = [
        {**report.to_dict(), "diagnostics": [diagnostic.to_dict() for diagnostic in _located(report)]} for report in reports
    ]
    if len(documents) == 1:
        return documents[0]
    errors = sum(report.errors for report in reports)
    return {
        "status": "error" if errors else "ok",
        "queries_processed": sum(len(report.results) for report in reports),
        "errors": errors,
        "warnings": sum(report.warnings for report in reports),
        "infos": sum(report.infos for report in reports),
        "reports": documents,
    }


def _lines(report: Report) -> Iterator[StyledLine]:
    for diagnostic in _located(report):
        yield from diagnostic.lines()
    for result in report.results:
        for warning in result.warnings:
            yield from _note("warning", warning, report.query_path, (result.name,))
    for finding in report.findings:
        if finding.diagnostic is None:
            label = f"{finding.severity}[{finding.code}]"
            yield from _note(label, finding.message, report.query_path, finding.query_names)
    yield [(_verdict(report), _summary(report))]


def _note(label: str, message: str, path: str, queries: Sequence[str]) -> Iterator[StyledLine]:
    """A finding that has no place in the text, only queries it is about."""
    style = {"error": "error", "warning": "warning"}.get(label.partition("[")[0], "help")
    yield [(style, label), ("bold", f": {message}")]
    names = ", ".join(f"`{name}`" for name in queries)
    yield [("gutter", " --> "), ("source", f"{path}: {names}" if names else path)]
    yield []


def _verdict(report: Report) -> str:
    return "error" if report.errors else "warning" if report.warnings else "good"


def _summary(report: Report) -> str:
    checked = _count(len(report.results), "query", "queries")
    counts = [_count(report.errors, "error"), _count(report.warnings, "warning")]
    if report.infos:
        counts.append(_count(report.infos, "info"))
    return f"{checked} checked in {report.query_path}: {', '.join(counts)}"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
