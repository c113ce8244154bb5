"""A real terminal for the tests: a pane of tmux, with a server of its own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.ogsql import environment

WIDTH, HEIGHT = 100, 30
PATIENCE = 20.0
_POLL = 0.05


class Terminal:
    """What a person sees and types."""

    def __init__(self, name: str, env: Mapping[str, str]) -> None:
        self._name = name
        self._env = dict(env)

    def start(self, command: list[str | Path], cwd: Path) -> None:
        """Run a command in the pane; when it has ended, the screen says so, and stays."""
        # An interrupt comes to the shell around the command as well, which must outlive it.
        line = f'trap : INT; {shlex.join(map(str, command))}; echo "ended with $?"; exec sleep 600'
        self._tmux(
            "-f", os.devnull, "new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), "-c", str(cwd), "sh", "-c", line
        )  # fmt: skip

    def type(self, text: str) -> None:
        """Press the keys of a text, one after the other."""
        # tmux takes a semicolon at the end of an argument for the end of its own command.
        self._tmux("send-keys", "-l", "--", f"{text[:-1]}\\;" if text.endswith(";") else text)

    def press(self, *keys: str) -> None:
        """Press keys that have names, such as `Enter` and `C-c`."""
        self._tmux("send-keys", *keys)

    def enter(self, text: str) -> None:
        """Type a line."""
        self.type(text)
        self.press("Enter")

    @property
    def screen(self) -> str:
        """What is on the screen, without the empty lines below."""
        return self._tmux("capture-pane", "-p").rstrip("\n")

    def wait(self, pattern: str) -> str:
        """Wait until a pattern is on the screen, and return the screen."""
        until = time.monotonic() + PATIENCE
        while not re.search(pattern, shown := self.screen, re.MULTILINE):
            assert time.monotonic() < until, f"no {pattern!r} on the screen:\n{shown}"
            time.sleep(_POLL)
        return shown

    def wait_for_work(self) -> None:
        """Wait until a command was taken: the cursor then stands at the beginning of a line."""
        until = time.monotonic() + PATIENCE
        while self._tmux("display-message", "-p", "#{cursor_x}").strip() != "0":
            assert time.monotonic() < until, f"the command was not taken:\n{self.screen}"
            time.sleep(_POLL)

    def interrupt(self, pattern: str) -> None:
        """Press Ctrl-C until a pattern is on the screen: Python may lose an interrupt that meets it in a destructor."""
        until = time.monotonic() + PATIENCE
        while not re.search(pattern, shown := self.screen, re.MULTILINE):
            assert time.monotonic() < until, f"no {pattern!r} on the screen:\n{shown}"
            self.press("C-c")
            time.sleep(1)

    def close(self) -> None:
        """End the server of this terminal, and everything in it."""
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        result = subprocess.run(
            ["tmux", "-u", "-L", self._name, *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=PATIENCE,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout


@contextmanager
def terminal(command: list[str | Path], cwd: Path, **variables: str) -> Iterator[Terminal]:
    """A command in a terminal of its own."""
    made = Terminal(f"ogsql-{os.getpid()}-{uuid.uuid4().hex[:8]}", environment(**variables))
    made.start(command, cwd)
    try:
        yield made
    finally:
        made.close()
