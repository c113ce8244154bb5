"""Named points in the code where tests can make an operation fail, stop or die.

They are compiled in always and inert unless armed. `OMNIGRAPH_FAILPOINTS="name=action[@n],…"` arms them in a process, where
`@n` means: at the n-th hit only. Actions:

- `error`: an error of the storage family; `interrupt`: what Ctrl-C does; `panic`: an exception that goes past every handler
- `exit`: ends the process at once, like a crash
- `stop`: stops the process until somebody continues it (SIGSTOP, SIGCONT); `sleep(ms)` stops the thread for a while
- `times(n)`: the first n times, for points that ask whether something is to be pretended

Inside one process `pause` holds the thread that reaches a point until the test lets it go.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph_sql.errors import Storage

VARIABLE = "OMNIGRAPH_FAILPOINTS"
_RULE = re.compile(
    r"(?P<name>[a-z_.]+)=(?P<action>error|interrupt|panic|exit|stop|sleep\((?P<ms>[0-9]+)\)|times\((?P<times>[0-9]+)\))"
    r"(?:@(?P<nth>[0-9]+))?"
)
_EXIT_STATUS = 86

_hits: dict[str, int] = {}
_lock = threading.Lock()


class Panic(BaseException):
    """Raised by the action `panic`: goes past every handler, as if the process had died."""


@dataclass
class Pause:
    """A thread held at a failpoint: `reached` is set when it is there, `resume` lets it go."""

    name: str
    nth: int
    reached: threading.Event = field(default_factory=threading.Event)
    resume: threading.Event = field(default_factory=threading.Event)
    _hits: int = 0


_pauses: list[Pause] = []


def hit(name: str) -> None:
    """Do what the failpoint `name` is armed for; nothing, when it is not."""
    armed = os.environ.get(VARIABLE)
    if armed:
        for found in _due(name, armed):
            _act(name, found)
    if _pauses:
        _hold(name)


def fires(name: str) -> bool:
    """Whether what the failpoint `name` stands for is to be pretended this time."""
    armed = os.environ.get(VARIABLE)
    return bool(armed) and any(found["times"] is not None for found in _due(name, armed or ""))


def reset() -> None:
    """Forget how often each point was hit."""
    with _lock:
        _hits.clear()


@contextmanager
def pause(name: str, nth: int = 1) -> Iterator[Pause]:
    """Hold the thread that makes the n-th hit of a point from now on, until `resume` is set or the block ends."""
    held = Pause(name, nth)
    with _lock:
        _pauses.append(held)
    try:
        yield held
    finally:
        with _lock:
            _pauses.remove(held)
        held.resume.set()


def _hold(name: str) -> None:
    with _lock:
        here = [each for each in _pauses if each.name == name]
        for each in here:
            each._hits += 1
        due = [each for each in here if each._hits == each.nth]
    for each in due:
        each.reached.set()
        each.resume.wait()


def _due(name: str, armed: str) -> Iterator[re.Match[str]]:
    for rule in armed.split(","):
        found = _RULE.fullmatch(rule.strip())
        if found is None:
            known = "error|interrupt|panic|exit|stop|sleep(ms)|times(n)"
            raise ValueError(f"{VARIABLE}: cannot read {rule.strip()!r}; write name={known}[@n]")
        if found["name"] == name and _is_due(name, found["nth"], found["times"]):
            yield found


def _act(name: str, found: re.Match[str]) -> None:
    match found["action"].partition("(")[0]:
        case "error":
            raise Storage(f"failpoint {name}", storage_class="permanent")
        case "interrupt":
            raise KeyboardInterrupt
        case "panic":
            raise Panic(name)
        case "exit":
            os._exit(_EXIT_STATUS)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "sleep":
            time.sleep(int(found["ms"]) / 1000)
        case _:
            raise ValueError(f"{VARIABLE}: {name} cannot be pretended; use another action than {found['action']}")


def _is_due(name: str, nth: str | None, times: str | None) -> bool:
    with _lock:
        _hits[name] = _hits.get(name, 0) + 1
        count = _hits[name]
    return count <= int(times) if times is not None else nth is None or count == int(nth)
