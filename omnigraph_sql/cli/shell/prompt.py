"""A session in a terminal."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output

from omnigraph_sql.cli import errors, output
from omnigraph_sql.cli.shell.commands import COMMANDS
from omnigraph_sql.cli.shell.completion import Names, complete
from omnigraph_sql.cli.shell.session import ShellExit, ShellSession
from omnigraph_sql.cli.shell.statements import is_complete
from omnigraph_sql.errors import OmnigraphError

if TYPE_CHECKING:
    from prompt_toolkit.document import Document

_PATH = "<shell>"
_HISTORY = "shell_history"
_INDENT = "  "
_LOCAL_MODES = 3  # where `termios` keeps them


def run_prompt(session: ShellSession) -> None:
    """Read and run statements until the user leaves. Errors do not end the session."""
    history = _history()
    session.history = history.get_strings
    prompt: PromptSession[str] = PromptSession(
        history=history,
        completer=_Completer(_names(session)),
        complete_while_typing=False,
        complete_in_thread=True,
        key_bindings=_keys(),
        multiline=True,
        prompt_continuation=_continuation,
        output=create_output(always_prefer_tty=True),
    )
    output.write("help shows the commands, Tab completes, exit or Ctrl-D leaves.\n")
    with _without_echo():
        while True:
            try:
                _attempt(session, prompt.prompt(session.prompt))
            except KeyboardInterrupt:
                continue
            except (EOFError, ShellExit):
                return


@contextmanager
def _without_echo() -> Iterator[None]:
    """Turn the echo off while a statement runs; the next prompt shows the typed text."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    silent = [*before]
    silent[_LOCAL_MODES] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, silent)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def _attempt(session: ShellSession, text: str) -> None:
    try:
        session.run_text(text, _PATH)
    except ShellExit:
        raise
    except KeyboardInterrupt:
        output.write_styled([[("warning", "cancelled")]], sys.stderr)
    except Exception as error:
        known = errors.typed(error)
        lines = errors.plain_lines(*errors.defect(error)) if known is None else errors.error_lines(known)
        output.write_styled(lines, sys.stderr)


# The prompt ----------------------------------------------------------------------------------------------------------


def _continuation(width: int, line: int, wrapped: int) -> AnyFormattedText:  # noqa: ARG001 (what prompt_toolkit passes)
    return " " * width if wrapped else "...> ".rjust(width)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def run_or_go_on(event: KeyPressEvent) -> None:
        """Run a complete input; otherwise begin another line with the same indentation."""
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=True)

    @keys.add("enter", filter=completion_is_selected)
    def take(event: KeyPressEvent) -> None:
        """Take the completion, and go on typing."""
        event.current_buffer.complete_state = None

    @keys.add("tab")
    def complete_or_indent(event: KeyPressEvent) -> None:
        """Complete; where nothing was typed yet in a later line, indent it."""
        buffer = event.current_buffer
        if buffer.complete_state:
            buffer.complete_next()
        elif "\n" in buffer.document.text_before_cursor and not buffer.document.current_line_before_cursor.strip():
            buffer.insert_text(_INDENT)
        else:
            buffer.start_completion(insert_common_part=True)

    return keys


# Completion ----------------------------------------------------------------------------------------------------------


class _Completer(Completer):
    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        for candidate in complete(document.text_before_cursor, document.text_after_cursor, self._names):
            yield Completion(candidate.text, start_position=-candidate.replaces, display_meta=candidate.about)


def _names(session: ShellSession) -> Names:
    def branches() -> list[str]:
        try:
            return session.graph.branches()
        except OmnigraphError:
            return []  # a store that does not answer must not interrupt typing

    def tags() -> list[str]:
        try:
            return [tag.name for tag in session.graph.tags()]
        except OmnigraphError:
            return []

    commands = [(name, command.takes) for name, command in COMMANDS.items()]
    return Names(session.graph.catalog, branches, lambda: list(session.params), commands, tags)


# History -------------------------------------------------------------------------------------------------------------


def _history() -> History:
    """The history of earlier sessions, in a private file: it may hold values."""
    home = Path(os.environ.get("OMNIGRAPH_HOME") or "~/.omnigraph").expanduser()
    path = home / _HISTORY
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        text = f"the history is not kept: `{path}` cannot be written: {error.strerror}"
        output.write_styled([[("warning", "warning"), ("source", f": {text}")]], sys.stderr)
        return InMemoryHistory()
    return FileHistory(path)
