"""Pool of the processes that run isolated statements."""

from __future__ import annotations

import os
import threading
from typing import Final

from omnigraph_sql.errors import BadRequest, ResourceLimit
from omnigraph_sql.isolation.process import EngineProcess

MOST_PROCESSES: Final = 32
"""The most isolated statements of one graph handle at a time."""
MOST_IDLE: Final = 4


class ProcessPool:
    """Starts processes on demand. A process runs one statement at a time; after a failure it is not used again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[EngineProcess] = []
        self._busy: set[EngineProcess] = set()
        self._owner = os.getpid()
        self._is_closed = False

    def take(self) -> EngineProcess:
        """Return an idle or new process."""
        with self._lock:
            if self._owner != os.getpid():  # a forked child must not use the processes of its parent
                self._owner, self._idle, self._busy = os.getpid(), [], set()
            if self._is_closed:
                raise BadRequest("the graph is closed", hint="open it again")
            while self._idle:
                idle = self._idle.pop()
                if idle.is_usable:
                    self._busy.add(idle)
                    return idle
                idle.close()
            if len(self._busy) >= MOST_PROCESSES:
                text = f"{MOST_PROCESSES} isolated statements of this graph run already"
                hint = "read results to their end, or cancel them, before you start more"
                raise ResourceLimit(text, resource="processes", limit=MOST_PROCESSES, actual=MOST_PROCESSES + 1, hint=hint)
            process = EngineProcess()
            self._busy.add(process)
        try:
            process.wait_ready()
        except BaseException:
            self.discard(process)
            raise
        return process

    def give(self, process: EngineProcess) -> None:
        """Return a process to the pool after its statement has ended."""
        with self._lock:
            self._busy.discard(process)
            is_pooled = not self._is_closed and len(self._idle) < MOST_IDLE and process.is_usable
            if is_pooled:
                self._idle.append(process)
        if not is_pooled:
            process.close()

    def discard(self, process: EngineProcess) -> None:
        """Kill a process."""
        process.close()
        with self._lock:
            self._busy.discard(process)

    def close(self) -> None:
        """Kill all processes; results that are still being read end with an error."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for process in idle:
            process.close()
        for process in busy:
            process.kill()  # its reader closes it
