"""Questions the oracle does not answer."""

from __future__ import annotations


class Undecided(Exception):
    """There is no answer to compare with."""


class Unspecified(Undecided):
    """The language leaves the answer open."""


class TooLarge(Undecided):
    """Trying everything would take too long."""
