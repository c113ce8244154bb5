"""Limits on the size of one query. Real queries stay far below; the limits keep planning within seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from omnigraph_compiler.diagnostics import Reporter
from omnigraph_compiler.query import ast

MAX_PATTERN = 64
"""The maximum number of bindings and traversals of a query, including those inside `not`."""
MAX_CONDITIONS = 512
"""The maximum number of filters, text tests, property matches and `not` blocks of a query."""
MAX_NEGATIONS = 8
"""The maximum nesting of `not` blocks."""
MAX_SORT_KEYS = 64
MAX_ITEMS = 1024
MAX_PARAMETERS = 1024
MAX_STATEMENTS = 8192


def check_size(report: Reporter, query: ast.Query) -> None:
    """Raise a parse error if a query exceeds one of the limits."""
    _check_count(report, "parameters", query.params, MAX_PARAMETERS)
    if isinstance(query.body, ast.Write):
        _check_count(
            report, "statements", query.body.statements, MAX_STATEMENTS, "load the data instead, or run several mutations"
        )
        return
    read = query.body
    _check_count(report, "items in `return`", read.returns.items, MAX_ITEMS)
    _check_count(report, "sort keys", () if read.order is None else read.order.keys, MAX_SORT_KEYS)
    clauses = list(_clauses(report, read.match.clauses, 0))
    pattern = [clause for clause in clauses if isinstance(clause, ast.Binding | ast.Traversal)]
    _check_count(report, "bindings and traversals", pattern, MAX_PATTERN)
    conditions = [clause for clause in clauses if not isinstance(clause, ast.Binding | ast.Traversal)]
    conditions += [match for clause in clauses if isinstance(clause, ast.Binding) for match in clause.matches]
    _check_count(report, "conditions", conditions, MAX_CONDITIONS)


def _clauses(report: Reporter, clauses: tuple[ast.Clause, ...], depth: int) -> Iterator[ast.Clause | ast.PropertyMatch]:
    for clause in clauses:
        yield clause
        if isinstance(clause, ast.Negation):
            if depth == MAX_NEGATIONS:
                at = clause.span[0], clause.span[0] + len("not")
                _fail(report, f"`not` blocks stand more than {MAX_NEGATIONS} deep in each other", at)
            yield from _clauses(report, clause.clauses, depth + 1)


def _check_count(report: Reporter, kind: str, parts: Sequence[object], limit: int, help: str = "") -> None:
    if len(parts) > limit:
        at: ast.At = parts[limit].span  # type: ignore[attr-defined]
        _fail(report, f"the query has {len(parts)} {kind}; at most {limit} are possible", at, help)


def _fail(report: Reporter, text: str, at: ast.At, help: str = "") -> NoReturn:
    report.fail("parse", text, at, help=help or "split the query")
