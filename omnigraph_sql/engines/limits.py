"""How long a query may work and how much memory it may take."""

from __future__ import annotations

import math
import os
import re
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from omnigraph_sql.errors import BadRequest

TIMEOUT_VARIABLE = "OMNIGRAPH_QUERY_TIMEOUT_MS"
MEMORY_VARIABLE = "OMNIGRAPH_QUERY_MEMORY"
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)\s*")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_LEAST_BYTES = 1 << 20
_FALLBACK_BYTES = 4 << 30


@dataclass(frozen=True)
class Limits:
    """What one run of a query may take."""

    timeout: float | None
    """Seconds of work; None for no limit."""
    memory: int
    """Bytes of rows that are being worked on."""


def limits(timeout: float | None = None, memory: int | None = None) -> Limits:
    """The limits a caller gave, else those of the environment, else no time limit and half of the machine's memory."""
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise BadRequest(f"the timeout is {timeout} seconds", hint="it must be above 0; leave it out for no limit")
    if memory is not None and memory < _LEAST_BYTES:
        raise BadRequest(f"the memory limit is {memory} bytes", hint=f"it must be at least {_LEAST_BYTES}, one MiB")
    return Limits(
        _environment_timeout() if timeout is None else timeout, _environment_memory() if memory is None else memory
    )


def parse_size(text: str) -> int:
    """Bytes, from a number with or without a unit: `512MB`, `2GiB`, `1048576`. Units are powers of 1024.

    >>> parse_size("512MB") == parse_size("0.5 GiB") == 536870912
    True
    """
    found = _SIZE.fullmatch(text)
    if found is None or (found[3] and not found[2]):
        raise BadRequest(f"`{text}` is not a size", hint="write a number with a unit, for example 512MB or 2GiB")
    return int(float(found[1]) * 1024 ** " kmgt".find(found[2].lower()))


def parse_duration(text: str) -> float:
    """Seconds, from a number with a unit (ms, s, m, h, d, w).

    >>> parse_duration("30s"), parse_duration("1.5m"), parse_duration("250ms")
    (30.0, 90.0, 0.25)
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise BadRequest(f"`{text}` is not a duration", hint="write a number with a unit, for example 30s or 5m")
    return float(found[1]) * _SECONDS[found[2]]


def shown_size(size: float) -> str:
    """A number of bytes for people.

    >>> shown_size(536870912), shown_size(1000)
    ('512.0 MiB', '1000 bytes')
    """
    if size < 1024:
        return f"{size:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def _environment_timeout() -> float | None:
    given = os.environ.get(TIMEOUT_VARIABLE)
    if not given:
        return None
    if not given.isdigit() or int(given) == 0:
        _warn(TIMEOUT_VARIABLE, given, "milliseconds, a whole number above 0", "no limit")
        return None
    return int(given) / 1000


def _environment_memory() -> int:
    given = os.environ.get(MEMORY_VARIABLE)
    if not given:
        return half_of_memory()
    try:
        size = parse_size(given)
    except BadRequest:
        size = 0
    if size < _LEAST_BYTES:
        _warn(MEMORY_VARIABLE, given, "a size of at least 1MiB, for example 512MB", "half of the machine's memory")
        return half_of_memory()
    return size


def _warn(name: str, given: str, wanted: str, instead: str) -> None:
    warnings.warn(f"{name} is `{given}`, not {wanted}; using {instead}", RuntimeWarning, stacklevel=4)


@cache
def half_of_memory() -> int:
    """Half of the memory that this process can get at most."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return _FALLBACK_BYTES
    try:
        ceiling = Path("/sys/fs/cgroup/memory.max").read_text("ascii").strip()
    except OSError:
        ceiling = "max"
    return min(found, int(ceiling)) // 2 if ceiling.isdigit() else found // 2
