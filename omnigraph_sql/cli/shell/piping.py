"""Statements from a stream: each is run as soon as its end was read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from omnigraph_sql.cli import failures, output
from omnigraph_sql.cli.shell.session import Leave, Session
from omnigraph_sql.cli.shell.statements import Statement, split
from omnigraph_sql.errors import OmnigraphError

PATH = "<stdin>"


def statements_of(lines: Iterable[str]) -> Iterator[Statement]:
    """The statements of a text that comes line by line; a last one need not be ended."""
    text, above = "", 0
    for line in lines:
        text += line
        # Nothing else ends a statement, and a long one is not scanned again at each of its lines.
        if not (";" in line or "}" in line or text.lstrip().startswith("\\")):
            continue
        pieces = split(text)
        yield from (replace(each, line=each.line + above) for each in pieces.complete)
        if pieces.complete:
            rest = pieces.rest
            kept = "" if rest is None else " " * (rest.column - 1) + rest.text
            above += text.count("\n") - kept.count("\n")
            text = kept
    pieces = split(text)
    for each in (*pieces.complete, *([] if pieces.rest is None else [pieces.rest])):
        yield replace(each, line=each.line + above)


def obey(session: Session, lines: Iterable[str], after_error: Callable[[OmnigraphError], None]) -> None:
    """Run the statements of a stream. `after_error` is told what goes wrong, and raises it where that ends the run."""
    for statement in statements_of(lines):
        try:
            session.run(statement, PATH)
        except Leave:
            return
        except OmnigraphError as error:
            after_error(error)


def stop(error: OmnigraphError) -> None:
    """The first error ends the run."""
    raise error


class KeepGoing:
    """Errors are shown, and the run goes on; the first of them decides how the process ends."""

    def __init__(self) -> None:
        self.status = 0

    def __call__(self, error: OmnigraphError) -> None:
        output.write_styled(failures.error_lines(error), sys.stderr)
        self.status = self.status or error.exit_code
