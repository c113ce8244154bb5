"""Statements from a stream. Each runs once its end is read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from omnigraph_sql.cli import errors, output
from omnigraph_sql.cli.shell.session import ShellExit, ShellSession
from omnigraph_sql.cli.shell.statements import ShellStatement, plain_word, split
from omnigraph_sql.errors import OmnigraphError

PATH = "<stdin>"


def statements_of(lines: Iterable[str]) -> Iterator[ShellStatement]:
    """The statements of a text that comes line by line; a last one need not be ended."""
    text, above = "", 0
    for line in lines:
        text += line
        # Only these characters end a statement, so a long one is not scanned again at each of its lines.
        is_command = text.lstrip().startswith("\\") or plain_word(text.lstrip()) is not None
        if not (is_command or ";" in line or "}" in line):
            continue
        pieces = split(text)
        yield from (replace(statement, line=statement.line + above) for statement in pieces.complete)
        if pieces.complete:
            rest = pieces.rest
            kept = "" if rest is None else " " * (rest.column - 1) + rest.text
            above += text.count("\n") - kept.count("\n")
            text = kept
    pieces = split(text)
    for statement in (*pieces.complete, *([] if pieces.rest is None else [pieces.rest])):
        yield replace(statement, line=statement.line + above)


def run_input(session: ShellSession, lines: Iterable[str], after_error: Callable[[OmnigraphError], None]) -> None:
    """Run the statements of a stream. `after_error` gets each error, and raises it to end the run."""
    for statement in statements_of(lines):
        try:
            session.run(statement, PATH)
        except ShellExit:
            return
        except Exception as error:
            known = errors.typed(error)
            if known is None:
                raise
            after_error(known)


def stop(error: OmnigraphError) -> None:
    """The first error ends the run."""
    raise error


class ErrorMode:
    """Prints errors and continues; the first one decides the exit status."""

    def __init__(self) -> None:
        self.status = 0

    def __call__(self, error: OmnigraphError) -> None:
        output.write_styled(errors.error_lines(error), sys.stderr)
        self.status = self.status or error.exit_code
