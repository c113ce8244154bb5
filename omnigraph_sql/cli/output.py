"""Everything `ogsql` writes goes through here: plain text, coloured text on a terminal, and JSON."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO, TypeAlias

if TYPE_CHECKING:
    from rich.text import Text

StyledLine: TypeAlias = Sequence[tuple[str, str]]
"""Pieces of one line: the name of a style, and a text."""

# All but tabs and line breaks; also what turns the direction of a text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "good": "green",
    "bold": "bold",
    "gutter": "bold blue",
    "source": "",
    "caret": "bold red",
    "help": "cyan",
}


def prepare_streams() -> None:
    """Let both output streams take any text, in every locale, also when they are closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (lives as long as the process)
        elif isinstance(stream, io.TextIOWrapper):
            # File names may hold bytes that are no text.
            stream.reconfigure(errors="backslashreplace")


def silence(*streams: TextIO) -> None:
    """Discard buffered output that cannot be written, so that the interpreter does not complain at exit."""
    for stream in streams:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write(text: str, stream: TextIO | None = None) -> None:
    """Write a text to standard output or another stream, at once, so that a failure is noticed here and not at exit."""
    target = stream or sys.stdout
    target.write(text)
    target.flush()


def write_json(document: object) -> None:
    """Write one JSON document to standard output."""
    # In UTF-8 only lone surrogates are left for the stream's backslashes, and `\udcff` happens to be JSON as well.
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    write(json.dumps(document, indent=2, ensure_ascii=encoding != "utf8") + "\n")


def write_styled(lines: Iterable[StyledLine], stream: TextIO | None = None) -> None:
    """Write lines of styled pieces, in colour where the stream is a terminal that wants it."""
    target = stream or sys.stdout
    if not wants_colour(target):
        write("".join("".join(_visible(text) for _, text in line) + "\n" for line in lines), target)
        return
    from rich.text import Text

    _write_coloured([Text.assemble(*((_visible(text), _STYLES[style]) for style, text in line)) for line in lines], target)


def _visible(text: str) -> str:
    """The text with escaped control characters: messages quote names and values from untrusted data."""
    return _CONTROLS.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def wants_colour(stream: TextIO) -> bool:
    """True if output to a stream is coloured: on a terminal, unless NO_COLOR is set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _write_coloured(lines: Iterable[Text], stream: TextIO) -> None:
    from rich.console import Console

    console = Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for line in lines:
            # A diagnostic is laid out by columns: wrapping it would move the caret.
            console.print(line, soft_wrap=True)
    write(captured.get(), stream)
