"""What turns the text of a `nearest` query into a vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Embedder:
    """A model and its function from text and dimension to a vector."""

    model: str
    embed: Callable[[str, int], list[float]]
