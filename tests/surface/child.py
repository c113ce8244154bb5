"""Tries cases in a process of its own: `python -m tests.surface.child DIRECTORY` reads their names, one in a line.

Before and after each it writes a line, so that whoever started it knows which one hung or ended the process.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import omnigraph_sql as og
from omnigraph_compiler import CompileError
from omnigraph_sql.embeddings import UnusableVector
from tests.surface import commands
from tests.surface.hostile import NESTED, VALUES
from tests.surface.targets import Target, targets
from tests.surface.world import World

_ADDRESS_SPACE = 16 << 30
_ROWS = 1000


def consume(found: Any) -> None:
    """Read what a call gave: much of the work is done only then."""
    if isinstance(found, og.Graph):
        found.close()
    elif hasattr(found, "to_pylist"):
        found.to_pylist()
    elif isinstance(found, Iterator):
        for _, _row in zip(range(_ROWS), found, strict=False):
            pass
    elif hasattr(found, "__enter__"):
        with found:
            pass


def attempt(world: World, target: Target, parameter: str, value: Any) -> str:
    """What comes of a call."""
    arguments = target.arguments(world)
    if parameter:
        arguments[parameter] = value
    try:
        consume(target.call(world, arguments))
    except (og.errors.OmnigraphError, CompileError, UnusableVector) as error:
        return _readable(error)
    except RecursionError:
        return "raw RecursionError"
    except BaseException as error:
        return f"raw {type(error).__name__}: {_text(error)}"
    return "ok"


def _readable(error: Exception) -> str:
    """A typed error must be fit for a log: it has a message, and that can be written."""
    if isinstance(error, og.errors.Internal):
        return f"raw Internal: {_text(error)}"
    try:
        text = str(error)
        text.encode()
    except Exception as fault:
        return f"raw message: {type(fault).__name__} in {type(error).__name__}"
    if not text.strip():
        return f"raw message: none in {type(error).__name__}"
    if len(text) > 8500:  # a message and a hint, each cut by the family
        return f"raw message: {len(text)} characters in {type(error).__name__}: {text[:80]}"
    return f"typed {type(error).__name__}: {text[:200]}"


def _text(error: BaseException) -> str:
    try:
        return str(error)[:300]
    except Exception as fault:
        return f"({type(fault).__name__} in its text)"


def misbehave(how: str) -> None:
    """What the runner must notice."""
    if how == "hang":
        time.sleep(3600)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Try all cases of standard input."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.RLIM_INFINITY))
    report = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    world = World(Path(sys.argv[1]))
    os.chdir(world.work)
    known = targets()
    for case in sys.stdin.read().split("\n"):
        print(f"> {case}", file=report)
        place, _, value = case.rpartition("=")
        name, _, parameter = place.rpartition(".")
        if name == "runner":
            misbehave(parameter)
        if name.startswith("ogsql"):
            outcome = commands.attempt(world, name, parameter, value)
            changes = name.removeprefix("ogsql ") in commands.CHANGING
        else:
            outcome = attempt(world, known[name], parameter, (VALUES | NESTED)[value]() if parameter else None)
            changes = known[name].changes
        if changes and (fault := world.check()):
            outcome = f"raw graph: after `{outcome}`: {fault}"
            world.replace()
        print("< " + outcome.replace("\n", " / "), file=report)


if __name__ == "__main__":
    main()
