"""Type checks of arguments: a value of the wrong type raises a `CompileError` that names the parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from omnigraph_compiler.diagnostics import CompileError, Diagnostic
from omnigraph_compiler.plain import plain_text

P = ParamSpec("P")
R = TypeVar("R")
_NAMES = {str: "a text", bytes: "bytes", type(None): "None"}


def checked(**kinds: type | tuple[type, ...]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that it checks the types of the named arguments; omitted arguments are not checked."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            values = bound.arguments
            for name, kind in kinds.items():
                if name in values and not isinstance(values[name], kind):
                    raise CompileError(Diagnostic("input", _complaint(name, values[name], kind)))
                if isinstance(values.get(name), str):
                    values[name] = plain_text(values[name])
            return function(*bound.args, **bound.kwargs)

        return run

    return decorate


def _complaint(name: str, value: Any, kind: type | tuple[type, ...]) -> str:
    types = kind if isinstance(kind, tuple) else (kind,)
    expected = " or ".join(_NAMES.get(type_, f"a {type_.__name__}") for type_ in types)
    return f"`{name}` is {expected}, not {type(value).__name__}"
