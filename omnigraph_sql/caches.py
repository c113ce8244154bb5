"""Shared containers: an LRU cache, a once-per-key map, a pool of objects."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key, at most `capacity`; the least recently used goes first. Safe to use from several threads."""

    def __init__(self, capacity: int, cost: Callable[[V], int] | None = None) -> None:
        """With `cost`, the capacity is a sum of costs, for example bytes, and not a number of values."""
        self._capacity = capacity
        self._cost = cost
        self._size = 0
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def peek(self, key: K) -> V | None:
        """The value of a key, which is now the one used last; None without one."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> V:
        """Set the value of a key."""
        with self._lock:
            self._remove(key)
            self._add(key, value)
            return value

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made if there is none; threads that miss at the same time all make it. No failure is kept."""
        value = self.peek(key)
        return self.put(key, make()) if value is None else value

    def setdefault(self, key: K, value: V) -> V:
        """The value of a key; the given one becomes it if there is none."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            else:
                self._add(key, value)
            return self._values[key]

    def items(self) -> list[tuple[K, V]]:
        """Keys and values, the least recently used first. Looking at them is no use of them."""
        with self._lock:
            return list(self._values.items())

    def remove(self, condition: Callable[[K], bool]) -> None:
        """Remove the values of the keys that satisfy a condition."""
        with self._lock:
            for key in [key for key in self._values if condition(key)]:
                self._remove(key)

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def _add(self, key: K, value: V) -> None:
        self._values[key] = value
        self._size += 1 if self._cost is None else self._cost(value)
        while self._size > self._capacity:
            self._remove(next(iter(self._values)))

    def _remove(self, key: K) -> None:
        value = self._values.pop(key, None)
        if value is not None:
            self._size -= 1 if self._cost is None else self._cost(value)


class _Cell:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: Any = None


class OnceMap:
    """Values by name, each made once. Threads that want the same value wait for the one that makes it."""

    made = 0
    """Number of values made in this process. As long as it stays the same, no map has grown."""

    def __init__(self) -> None:
        self._cells: dict[str, _Cell] = {}
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """The value of a name, made if there is none. If `make` fails, the next caller tries again."""
        value = self.peek(name)
        if value is not None:
            return value
        with self._lock:
            cell = self._cells.setdefault(name, _Cell())
        with cell.lock:
            if cell.value is None:
                cell.value = make()
                OnceMap.made += 1
            return cell.value

    def peek(self, name: str) -> Any:
        """The value of a name; None without one."""
        cell = self._cells.get(name)  # cells are never removed or emptied, so no lock is needed
        return None if cell is None else cell.value

    def values(self) -> list[Any]:
        """All values."""
        with self._lock:
            return [cell.value for cell in self._cells.values() if cell.value is not None]


class SharedPools:
    """Pools by name, for several users of the objects in them."""

    def __init__(self) -> None:
        self._pools: dict[str, Pool[Any, Any]] = {}
        self._lock = threading.Lock()

    def of(self, name: str, make: Callable[[], Pool[Any, Any]]) -> Pool[Any, Any]:
        """The pool of a name, made when it is first asked for."""
        with self._lock:
            if name not in self._pools:
                self._pools[name] = make()
            return self._pools[name]

    def clear(self) -> None:
        """Discard all idle objects."""
        for pool in list(self._pools.values()):
            pool.clear()


class Pool(Generic[K, V]):
    """Objects by key, each lent to one user at a time. At most `capacity` of them are idle."""

    def __init__(self, capacity: int, discard: Callable[[V], object] = lambda _: None) -> None:
        """`discard` releases an object that is idle for longest when there are too many, and all of them on `clear`."""
        self._capacity = capacity
        self._discard = discard
        self._idle: list[tuple[K, V]] = []
        self._lock = threading.Lock()

    def take(self, key: K, usable: Callable[[V], bool] | None = None) -> V | None:
        """An idle object of a key, which is the caller's alone from now on; None without one."""
        with self._lock:
            for place, (other, value) in enumerate(self._idle):
                if other == key and (usable is None or usable(value)):
                    del self._idle[place]
                    return value
        return None

    def give(self, key: K, value: V) -> None:
        """Make an object available to others."""
        with self._lock:
            self._idle.append((key, value))
            surplus = self._idle[: -self._capacity]
            del self._idle[: -self._capacity]
        for _, idle in surplus:
            self._discard(idle)

    def clear(self) -> None:
        """Discard all idle objects."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, value in idle:
            self._discard(value)
