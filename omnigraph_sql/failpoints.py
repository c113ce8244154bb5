"""Failpoints: named places in the code where tests make an operation fail, stop or die.

They are always present, and inert unless armed. `OMNIGRAPH_FAILPOINTS="name=action[@n],…"` arms them in a process; with `@n`
the action runs at the n-th hit only. Actions:

- `error` raises an error of the storage family; `interrupt` raises `KeyboardInterrupt`; `panic` raises an exception that no
  handler catches
- `exit` ends the process at once, like a crash
- `stop` stops the process until it gets SIGCONT; `sleep(ms)` stops the thread for a time
- `times(n)` makes `fires` true for the first n hits

Within a process, `pause` holds the thread that reaches a failpoint until the test releases it.
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
    """Raised by the action `panic`. No handler catches it, as if the process had died."""


@dataclass
class Pause:
    """A thread held at a failpoint: `reached` is set when it arrives, setting `resume` releases it."""

    name: str
    nth: int
    reached: threading.Event = field(default_factory=threading.Event)
    resume: threading.Event = field(default_factory=threading.Event)
    _hits: int = 0


_pauses: list[Pause] = []


def hit(name: str) -> None:
    """Run the actions that the failpoint `name` is armed with, if any."""
    armed = os.environ.get(VARIABLE)
    if armed:
        for rule in _due_rules(name, armed):
            _act(name, rule)
    if _pauses:
        _hold(name)


def fires(name: str) -> bool:
    """True if the code must simulate the condition that the failpoint `name` stands for."""
    armed = os.environ.get(VARIABLE)
    return bool(armed) and any(rule["times"] is not None for rule in _due_rules(name, armed or ""))


def reset() -> None:
    """Reset the hit counts of all failpoints."""
    with _lock:
        _hits.clear()


@contextmanager
def pause(name: str, nth: int = 1) -> Iterator[Pause]:
    """Hold the thread that makes the n-th hit of a failpoint from now on, until `resume` is set or the block ends."""
    pause = Pause(name, nth)
    with _lock:
        _pauses.append(pause)
    try:
        yield pause
    finally:
        with _lock:
            _pauses.remove(pause)
        pause.resume.set()


def _hold(name: str) -> None:
    with _lock:
        pauses = [pause for pause in _pauses if pause.name == name]
        for pause in pauses:
            pause._hits += 1
        due = [pause for pause in pauses if pause._hits == pause.nth]
    for pause in due:
        pause.reached.set()
        pause.resume.wait()


def _due_rules(name: str, armed: str) -> Iterator[re.Match[str]]:
    for text in armed.split(","):
        rule = _RULE.fullmatch(text.strip())
        if rule is None:
            actions = "error|interrupt|panic|exit|stop|sleep(ms)|times(n)"
            raise ValueError(f"{VARIABLE}: cannot read {text.strip()!r}; write name={actions}[@n]")
        if rule["name"] == name and _is_due(name, rule["nth"], rule["times"]):
            yield rule


def _act(name: str, rule: re.Match[str]) -> None:
    match rule["action"].partition("(")[0]:
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
            time.sleep(int(rule["ms"]) / 1000)
        case _:
            raise ValueError(f"{VARIABLE}: {name} has no condition to simulate; use another action than {rule['action']}")


def _is_due(name: str, nth: str | None, times: str | None) -> bool:
    with _lock:
        _hits[name] = _hits.get(name, 0) + 1
        count = _hits[name]
    return count <= int(times) if times is not None else nth is None or count == int(nth)
