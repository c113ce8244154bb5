"""Arguments of a command as one value, instead of a parameter for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

A = TypeVar("A")


def takes(kind: Callable[..., A]) -> Callable[[Callable[[A], int]], Callable[..., int]]:
    """Decorator of a command: it gets a dataclass whose fields are the parameters that click has read."""

    def decorate(command: Callable[[A], int]) -> Callable[..., int]:
        @wraps(command)
        def run(**parameters: Any) -> int:
            return command(kind(**parameters))

        return run

    return decorate
