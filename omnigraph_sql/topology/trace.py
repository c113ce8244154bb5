"""What a query did to get at its data."""

from __future__ import annotations

import threading
from collections import Counter


class Trace:
    """Counts of calls by what was asked and how it was answered. Engines call from several threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, asked: str, way: str) -> None:
        """One more call."""
        with self._lock:
            self._counts[f"{asked}: {way}"] += 1

    def counts(self) -> dict[str, int]:
        """All calls so far, in order of their names."""
        with self._lock:
            return dict(sorted(self._counts.items()))
