"""Runs cases in child processes with a time limit, and starts another child where one hung or died."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.surface.world import make_files

SECONDS = 30
"""A case that takes longer counts as one that hangs. The machine may be busy."""


@dataclass(frozen=True)
class Outcome:
    case: str
    text: str

    @property
    def is_good(self) -> bool:
        return self.text == "ok" or self.text.startswith("typed")


def outcomes(cases: Sequence[str], root: Path, *, seconds: float = SECONDS) -> Iterator[Outcome]:
    """What came of each case."""
    left, number = list(cases), 0
    while left:
        place = root / f"world{number}"
        number += 1
        place.mkdir()
        make_files(place)
        for found in _run(list(left), place, seconds):
            left.remove(found.case)
            yield found
        shutil.rmtree(place)


def _run(cases: Sequence[str], place: Path, seconds: float) -> Iterator[Outcome]:
    """The outcomes that one child gets to, the last of them perhaps that it hung or died."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OMNIGRAPH")}
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.surface.child", str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=Path(__file__).parents[2],
        env={**kept, "OMNIGRAPH_HOME": str(place), "PYTHONFAULTHANDLER": "1"},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(child.stdout, lines), daemon=True)
    reader.start()
    case, noise = "", ""
    try:
        child.stdin.write("\n".join(cases).encode())
        child.stdin.close()
        while (line := lines.get(timeout=seconds)) is not None:
            if line.startswith("> "):
                case = line[2:]
            elif line.startswith("< "):
                yield Outcome(case, line[2:])
                case = ""
            else:
                noise = f"{noise}{line} / "[-1500:]
        status = child.wait()
        if case or status:
            yield Outcome(case or cases[-1], f"raw end of the process ({status}): {noise}")
    except queue.Empty:
        yield Outcome(case, f"hangs: {noise}")
    finally:
        child.kill()
        child.wait()
        reader.join()
        child.stdout.close()


def _read(stream: IO[bytes], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line.decode("utf-8", "replace").rstrip("\n"))
    lines.put(None)
