"""Named points in the code where tests can make an operation fail, stop or die.

They are compiled in always and inert unless armed through `OMNIGRAPH_FAILPOINTS="name=action[@n],…"`, where the action is
`error`, `panic`, `exit` or `sleep(ms)` and `@n` means: at the n-th hit only. `exit` ends the process at once, like a crash.
"""

from __future__ import annotations

import os
import re
import threading
import time

from omnigraph_sql.errors import Storage

VARIABLE = "OMNIGRAPH_FAILPOINTS"
_RULE = re.compile(r"(?P<name>[a-z_.]+)=(?P<action>error|panic|exit|sleep\((?P<ms>[0-9]+)\))(?:@(?P<nth>[0-9]+))?")
_EXIT_STATUS = 86

_hits: dict[str, int] = {}
_lock = threading.Lock()


class Panic(BaseException):
    """Raised by the action `panic`: goes past every handler for ordinary errors."""


def hit(name: str) -> None:
    """Do what the failpoint `name` is armed for; nothing, when it is not."""
    armed = os.environ.get(VARIABLE)
    if armed:
        _act(name, armed)


def reset() -> None:
    """Forget how often each point was hit."""
    with _lock:
        _hits.clear()


def _act(name: str, armed: str) -> None:
    for rule in armed.split(","):
        found = _RULE.fullmatch(rule.strip())
        if found is None:
            raise ValueError(f"{VARIABLE}: cannot read {rule.strip()!r}; write name=error|panic|exit|sleep(ms)[@n]")
        if found["name"] != name or not _is_due(name, found["nth"]):
            continue
        if found["action"] == "error":
            raise Storage(f"failpoint {name}", storage_class="permanent")
        if found["action"] == "panic":
            raise Panic(name)
        if found["action"] == "exit":
            os._exit(_EXIT_STATUS)
        time.sleep(int(found["ms"]) / 1000)


def _is_due(name: str, nth: str | None) -> bool:
    with _lock:
        _hits[name] = _hits.get(name, 0) + 1
        return nth is None or _hits[name] == int(nth)
