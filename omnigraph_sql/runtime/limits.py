"""Limits of a query: the timeout and the memory."""

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
_MOST_BYTES = 1 << 63
_LONGEST_SECONDS = 24 * 86400.0
"""The longest timeout: many waits count milliseconds in 32 bits."""


@dataclass(frozen=True)
class RunLimits:
    """The limits of one run."""

    timeout: float | None
    """Seconds of work; None for no timeout."""
    memory: int
    """Bytes of intermediate rows."""
    spent: float = 0.0
    """Seconds that count as spent already, for example on compiling the query."""


def run_limits(timeout: float | None = None, memory: int | None = None) -> RunLimits:
    """Return limits from the arguments, else from the environment, else no timeout and half of the machine's memory.

    A longer timeout than 24 days counts as 24 days.
    """
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise BadRequest(f"the timeout is {timeout} seconds", hint="it must be above 0; leave it out for no limit")
    if memory is not None and memory < _LEAST_BYTES:
        raise BadRequest(f"the memory limit is {memory} bytes", hint=f"it must be at least {_LEAST_BYTES}, one MiB")
    seconds = _environment_timeout() if timeout is None else timeout
    return RunLimits(
        None if seconds is None else min(seconds, _LONGEST_SECONDS), _environment_memory() if memory is None else memory
    )


def parse_size(text: str) -> int:
    """Parse a number of bytes with or without a unit: `512MB`, `2GiB`, `1048576`. Units are powers of 1024.

    >>> parse_size("512MB") == parse_size("0.5 GiB") == 536870912
    True
    """
    match = _SIZE.fullmatch(text)
    if match is None or (match[3] and not match[2]):
        raise BadRequest(f"`{text}` is not a size", hint="write a number with a unit, for example 512MB or 2GiB")
    size = float(match[1]) * 1024 ** " kmgt".find(match[2].lower())
    if size >= _MOST_BYTES:
        raise BadRequest(f"`{text[:40]}` is larger than any memory", hint="write a smaller size, for example 2GiB")
    return int(size)


def parse_duration(text: str) -> float:
    """Parse a duration in seconds from a number with a unit (ms, s, m, h, d, w).

    >>> parse_duration("30s"), parse_duration("1.5m"), parse_duration("250ms")
    (30.0, 90.0, 0.25)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise BadRequest(f"`{text}` is not a duration", hint="write a number with a unit, for example 30s or 5m")
    return float(match[1]) * _SECONDS[match[2]]


def shown_size(size: float) -> str:
    """Format a number of bytes.

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
    value = os.environ.get(TIMEOUT_VARIABLE)
    if not value:
        return None
    if re.fullmatch(r"[0-9]{1,18}", value) is None or int(value) == 0:
        _warn(TIMEOUT_VARIABLE, value, "milliseconds, a whole number above 0", "no limit")
        return None
    return int(value) / 1000


def _environment_memory() -> int:
    value = os.environ.get(MEMORY_VARIABLE)
    if not value:
        return half_of_memory()
    try:
        size = parse_size(value)
    except BadRequest:
        size = 0
    if size < _LEAST_BYTES:
        _warn(MEMORY_VARIABLE, value, "a size of at least 1MiB, for example 512MB", "half of the machine's memory")
        return half_of_memory()
    return size


def _warn(name: str, value: str, expected: str, fallback: str) -> None:
    warnings.warn(f"{name} is `{value}`, not {expected}; using {fallback}", RuntimeWarning, stacklevel=4)


@cache
def half_of_memory() -> int:
    """Return half of the memory of the machine, or of the control group if that is less."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return _FALLBACK_BYTES
    try:
        ceiling = Path("/sys/fs/cgroup/memory.max").read_text("ascii").strip()
    except OSError:
        ceiling = "max"
    return min(total, int(ceiling)) // 2 if ceiling.isdigit() else total // 2
