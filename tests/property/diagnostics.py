"""What every diagnostic must be: inside its source, at the place it names, and fit to be shown."""

from __future__ import annotations

import re

from omnigraph_compiler import Diagnostic


def check_diagnostic(diagnostic: Diagnostic, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    span, position = diagnostic.span, diagnostic.position
    assert span is not None
    assert position is not None
    assert 0 <= span.start < span.end <= max(1, len(data))
    head = data[: span.start].decode("utf-8", "surrogatepass")
    data[span.start : span.end].decode("utf-8", "surrogatepass")
    line, column = head.count("\n") + 1, len(head) - (head.rfind("\n") + 1) + 1
    if line == 1 and text.startswith("\ufeff") and column > 1:
        column -= 1
    assert (position.line, position.column) == (line, column)
    source_line = text.split("\n")[line - 1].removesuffix("\r").removeprefix("\ufeff")
    source_line = re.sub("[\ud800-\udfff]", "\ufffd", source_line)  # halves of surrogate pairs cannot be shown
    assert diagnostic.source_line == source_line
    assert diagnostic.text.strip()
    assert diagnostic.text in diagnostic.message
    check_rendering(diagnostic, source_line)


def check_rendering(diagnostic: Diagnostic, source_line: str) -> None:
    rendered = diagnostic.render("some/where.gq")
    lines = rendered.split("\n")
    assert f"some/where.gq:{diagnostic.position.line}:{diagnostic.position.column}" in rendered  # type: ignore[union-attr]
    carets = next(at for at, line in enumerate(lines) if line.strip(" |").startswith("^"))
    shown, marks = lines[carets - 1], lines[carets]
    start = shown.index("| ") + 2
    assert marks[:start].endswith("| ")
    at = marks.index("^") - start
    assert marks.rstrip("^")[start:].strip() == ""
    assert len(marks) <= max(len(shown), marks.index("^") + 1)
    if len(source_line) <= 160:
        assert at == diagnostic.position.column - 1  # type: ignore[union-attr]
    # What stands above the first caret is the character the diagnostic is about.
    about = source_line[diagnostic.position.column - 1 : diagnostic.position.column]  # type: ignore[union-attr]
    if about.isprintable():
        assert shown[start + at : start + at + 1] == about
