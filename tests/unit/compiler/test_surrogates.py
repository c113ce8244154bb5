"""Texts with half of a surrogate pair have no UTF-8 form: no function of the compiler accepts one."""

from __future__ import annotations

import pytest

from omnigraph_compiler import CompileError, compile_queries, compile_schema, format_queries, format_schema, lint

SCHEMA = "node P { name: String @key }"
HALVES = ("\ud800", "\udbff", "\udc00", "\udfff")


@pytest.mark.parametrize("half", HALVES)
def test_no_text_with_half_of_a_surrogate_pair_is_accepted(half: str) -> None:
    catalog = compile_schema(SCHEMA)
    query = f'// ⚓\nquery q() {{ insert P {{ name: "{half}" }} }}'
    schema = f'// ⚓\nnode P {{ name: String @key @description("{half}") }}'
    for run, text in (
        (lambda text: compile_queries(catalog, text), query),
        (format_queries, query),
        (compile_schema, schema),
        (format_schema, schema),
    ):
        with pytest.raises(CompileError) as caught:
            run(text)
        found = caught.value.diagnostic
        assert (found.error_class, found.position and found.position.line) == ("parse", 2)
        assert f"U+{ord(half):04X}" in found.text
        assert found.source_line is not None
        assert found.position is not None
        assert found.source_line[found.position.column - 1] == "\ufffd"
        assert found.span is not None
        assert found.span.end - found.span.start == 3
        found.render().encode()


def test_whole_pairs_are_accepted() -> None:
    compile_queries(compile_schema(SCHEMA), 'query q() { insert P { name: "🚢\U0010ffff" } }')


def test_lint_reports_half_of_a_surrogate_pair() -> None:
    report = lint(compile_schema(SCHEMA), 'query q() { insert P { name: "\ud800" } }')
    assert report.status == "error"
    assert "U+D800" in str(report.to_dict())
    str(report.to_dict()).encode()
