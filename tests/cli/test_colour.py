"""Who gets colour, and who gets plain text."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.ogsql import OGSQL, TIMEOUT, environment, ogsql

ESCAPE = "\x1b["
LINT = ("lint", "ports.pg", "misspelt.gq")
COMPILE = ("compile", "ports.pg", "misspelt.gq")


def on_a_terminal(stream: str, *arguments: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    """What a terminal shows when one of the output streams is connected to it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [OGSQL, *arguments],
        cwd=cwd,
        env=environment(**(env or {})),
        stdin=subprocess.DEVNULL,
        stdout=theirs if stream == "stdout" else subprocess.DEVNULL,
        stderr=theirs if stream == "stderr" else subprocess.DEVNULL,
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:
        pass  # Linux says so when the other side is closed
    finally:
        os.close(ours)
        process.wait(timeout=TIMEOUT)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("stream", "arguments"), [("stdout", LINT), ("stderr", COMPILE), ("stderr", ("lint", "x", "y"))])
def test_a_terminal_gets_colour(folder: Path, stream: str, arguments: tuple[str, ...]) -> None:
    plain = ogsql(*arguments, cwd=folder)
    shown = on_a_terminal(stream, *arguments, cwd=folder)

    assert f"{ESCAPE}1;31m" in shown
    assert without_colour(shown) == (plain.out if stream == "stdout" else plain.err)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_that_wants_none_gets_none(folder: Path, env: dict[str, str]) -> None:
    assert on_a_terminal("stdout", *LINT, cwd=folder, env=env) == ogsql(*LINT, cwd=folder).out


def test_a_pipe_gets_no_colour_unless_forced(folder: Path) -> None:
    assert ESCAPE not in ogsql(*LINT, cwd=folder).out
    assert ESCAPE in ogsql(*LINT, cwd=folder, env={"FORCE_COLOR": "1"}).out
    assert ESCAPE not in ogsql(*LINT, cwd=folder, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out


def test_a_narrow_terminal_does_not_break_the_lines(folder: Path) -> None:
    assert without_colour(on_a_terminal("stdout", *LINT, cwd=folder, env={"COLUMNS": "20"})) == ogsql(*LINT, cwd=folder).out


def test_json_is_never_coloured(folder: Path) -> None:
    assert ESCAPE not in on_a_terminal("stdout", *LINT, "--json", cwd=folder)


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
