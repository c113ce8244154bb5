"""What both kinds of locks share."""

from __future__ import annotations

from urllib.parse import quote

DIRECTORY = "_locks"
TIMEOUT_SECONDS = 60.0


class Held(Exception):
    """A lock is held by somebody else, and was for these seconds while we waited."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds


def file_name(key: str) -> str:
    """The name of a lock as a file or object."""
    return quote(key, safe="")
