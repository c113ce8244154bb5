"""Values that several threads want and one makes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class _Cell:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: Any = None


class Kept:
    """Values by name, each made once. Making one holds up only those who want the same."""

    made = 0
    """How many values were made in this process: as long as it stays the same, no more is kept than before."""

    def __init__(self) -> None:
        self._cells: dict[str, _Cell] = {}
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """The value of a name, made if there is none; if making it fails, the next one to ask tries again."""
        found = self.peek(name)
        if found is not None:
            return found
        with self._lock:
            cell = self._cells.setdefault(name, _Cell())
        with cell.lock:
            if cell.value is None:
                cell.value = make()
                Kept.made += 1
            return cell.value

    def peek(self, name: str) -> Any:
        """The value of a name if it is there."""
        cell = self._cells.get(name)  # cells stay, and their values: there is nothing to wait for
        return None if cell is None else cell.value

    def values(self) -> list[Any]:
        """Everything that is there."""
        with self._lock:
            return [cell.value for cell in self._cells.values() if cell.value is not None]
