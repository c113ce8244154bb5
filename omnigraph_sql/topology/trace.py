"""A trace of the data accesses of a query."""

from __future__ import annotations

import threading
from collections import Counter


class Trace:
    """Counts of accesses by subject and method. Engines call it from several threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, subject: str, method: str) -> None:
        """Count one access."""
        with self._lock:
            self._counts[f"{subject}: {method}"] += 1

    def counts(self) -> dict[str, int]:
        """Return all counts so far, sorted by name."""
        with self._lock:
            return dict(sorted(self._counts.items()))
