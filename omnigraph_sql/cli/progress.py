"""The progress of a load, on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

Report = Callable[[int], None]
"""Takes the number of bytes read so far."""


def is_wanted(*, quiet: bool, as_json: bool) -> bool:
    """True if standard error is a terminal that shows progress."""
    return not quiet and not as_json and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def shown(label: str, total: int | None) -> Iterator[Report]:
    """A transient progress bar on standard error; without a total it only shows activity."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    description = TextColumn("{task.description}", markup=False)
    with Progress(
        description, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console, transient=True
    ) as bar:
        task = bar.add_task(f"reading {label}", total=total)

        def report(position: int) -> None:
            bar.update(task, completed=position)
            if total is not None and position >= total:
                # The duration of checking and writing, which follow, is unknown.
                bar.update(task, description=f"writing {label}", total=None)

        yield report


class ProgressInput:
    """A byte stream that reports the position in the file below it."""

    def __init__(self, stream: IO[bytes], file: IO[bytes], report: Report) -> None:
        self._stream = stream
        self._file = file
        self._report = report
        self.name = getattr(file, "name", None)

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self._stream.read(size)
        self._report(self._file.tell())
        return data
