"""`ogsql fmt`: rewrite schemas and queries in the canonical layout."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

import click

from omnigraph_compiler import decode_source, format_queries, format_schema
from omnigraph_sql.cli import output
from omnigraph_sql.cli.atomic_write import replace_content
from omnigraph_sql.cli.errors import diagnostics_of, error_lines
from omnigraph_sql.cli.source_files import read_bytes, read_standard_input, rejections
from omnigraph_sql.errors import OmnigraphError

_FORMATTERS = {"pg": format_schema, "gq": format_queries}
_STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class FormatOutcome:
    """The outcome of one file."""

    path: str
    status: Literal["changed", "unchanged", "error"]
    error: OmnigraphError | None = None
    text: str | None = None
    """The formatted text, where it was not written to a file."""

    def to_dict(self) -> dict[str, Any]:
        """Path and status, and what else there is: the error, its diagnostic, the text."""
        entry: dict[str, Any] = {"path": self.path, "status": self.status}
        if self.error is not None:
            entry["error"] = self.error.message
            for diagnostic in diagnostics_of(self.error):
                entry["diagnostic"] = diagnostic.to_dict()
        if self.text is not None:
            entry["text"] = self.text
        return entry


def run(paths: Sequence[str], *, check: bool, language: str | None, as_json: bool) -> int:
    """Format files in place, or standard input; 1 if a file is broken or, with `check`, would change."""
    languages = _languages(paths, language)
    if languages is None:
        outcomes = [_format_input(language or "", check=check)]
    else:
        outcomes = [_format_file(path, name, check=check) for path, name in zip(paths, languages, strict=True)]
    if as_json:
        output.write_json({"files": [outcome.to_dict() for outcome in outcomes]})
    else:
        _report(outcomes, check=check)
    failing = ("error", "changed") if check else ("error",)
    return 1 if any(outcome.status in failing for outcome in outcomes) else 0


def _languages(paths: Sequence[str], language: str | None) -> list[str] | None:
    """The language of each file, checked before any file is changed; None for standard input."""
    if _STANDARD_INPUT in paths:
        if len(paths) > 1:
            raise click.UsageError("`-` stands for standard input and cannot be combined with files")
        if language is None:
            raise click.UsageError("`-` needs --language pg or --language gq")
        return None
    if language is not None:
        raise click.UsageError("--language goes with `-`; the language of a file is decided by its suffix")
    return [_language(path) for path in paths]


def _language(path: str) -> str:
    suffix = PurePath(path).suffix.removeprefix(".")
    # A directory is not a file of another language; reading it says what is wrong.
    if suffix not in _FORMATTERS and not os.path.isdir(path):
        raise click.UsageError(f"`{path}` is neither a schema (.pg) nor a query file (.gq)")
    return suffix


def _format_input(language: str, *, check: bool) -> FormatOutcome:
    try:
        data = read_standard_input()
        formatted = _format(data, language, "<stdin>")
    except OmnigraphError as error:
        return FormatOutcome(_STANDARD_INPUT, "error", error)
    text = None if check else formatted
    return FormatOutcome(_STANDARD_INPUT, "unchanged" if formatted.encode() == data else "changed", text=text)


def _format_file(path: str, language: str, *, check: bool) -> FormatOutcome:
    try:
        data = read_bytes(path)
        formatted = _format(data, language, path).encode()
        if formatted == data:
            return FormatOutcome(path, "unchanged")
        if not check:
            replace_content(path, formatted)
    except OmnigraphError as error:
        return FormatOutcome(path, "error", error)
    return FormatOutcome(path, "changed")


def _format(data: bytes, language: str, path: str) -> str:
    with rejections(path):
        return _FORMATTERS[language](decode_source(data))


def _report(outcomes: Sequence[FormatOutcome], *, check: bool) -> None:
    """Results to standard output (a formatted text, or the files that change), everything else beside it."""
    for outcome in outcomes:
        if outcome.error is not None:
            output.write_styled(error_lines(outcome.error), sys.stderr)
        elif outcome.text is not None:
            output.write(outcome.text)
        elif outcome.status == "changed":
            output.write(f"{outcome.path}\n")
    if any(outcome.text is not None for outcome in outcomes):
        return
    output.write(", ".join(_tally(outcomes, check=check)) + "\n", sys.stderr)


def _tally(outcomes: Sequence[FormatOutcome], *, check: bool) -> Iterator[str]:
    words = {"changed": "would change" if check else "formatted", "unchanged": "unchanged", "error": "with an error"}
    for status, word in words.items():
        number = sum(outcome.status == status for outcome in outcomes)
        if number:
            yield f"{number} {'file' if number == 1 else 'files'} {word}"
