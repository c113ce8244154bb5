"""Shared parts of file locks and leases."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

DIRECTORY = "_locks"
QUEUES = "queues"
"""Below it: who waits for what."""
TIMEOUT_SECONDS = 60.0
_LONGEST = 200  # the markers of shared leases add to it
_KEPT = 150


class LockHeld(Exception):
    """Another process held a lock for all the seconds of the wait."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds


def file_name(key: str) -> str:
    """The name of a lock as a file or object. One that is too long for a file is cut and gets a digest."""
    name = quote(key, safe="")
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_KEPT]}~{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}"
