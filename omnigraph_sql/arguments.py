"""Checks of the arguments of public functions.

A public function declares a check for each parameter. In its body every value has the type that its annotation
says, texts can be encoded, integers are within bounds, and a callback that fails raises an error of the family.

>>> @checked(count=optional(whole(least=1)), names=texts)
... def choose(names, count=None):
...     return names, count
>>> choose(["a"], 3)
(('a',), 3)
>>> choose("a")
Traceback (most recent call last):
omnigraph_sql.errors.BadRequest: `names` is a collection of texts, not str
hint: give a list of texts
"""

from __future__ import annotations

import inspect
import json
import numbers
import operator
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

from omnigraph_sql.errors import BadRequest, OmnigraphError

P = ParamSpec("P")
R = TypeVar("R")
Check = Callable[[str, Any], Any]
"""Takes the name of a parameter and its value, and returns the value to work with, or raises `BadRequest`."""

_SHOWN = 60
_MOST = (1 << 63) - 1
"""The largest number that engines and tables hold."""


def checked(**checks: Check) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: check the arguments of a function by name. Defaults are not checked.

    Instances of subclasses of `str` become plain strings, checked or not.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        assert checks.keys() <= signature.parameters.keys()

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            values = bound.arguments
            for name, value in values.items():
                if isinstance(value, str) and type(value) is not str:
                    values[name] = str.__str__(value)
            for name, check in checks.items():
                if name in values:
                    values[name] = check(name, values[name])
            return function(*bound.args, **bound.kwargs)

        return run

    return decorate


def refuse(name: str, value: object, wanted: str, hint: str | None = None) -> NoReturn:
    """Raise the error for a value of the wrong type."""
    kind = "None" if value is None else type(value).__name__
    raise BadRequest(f"`{name}` is {wanted}, not {kind}", hint=hint or f"give {wanted}")


def shown(value: object) -> str:
    """Return a short, encodable text of any value, for a message."""
    try:
        text = str.__str__(value) if isinstance(value, str) else repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    cut = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return cut.encode("utf-8", "backslashreplace").decode()


# Checks --------------------------------------------------------------------------------------------------------------


def optional(check: Check) -> Check:
    """Accept None, or what another check accepts."""
    return lambda name, value: None if value is None else check(name, value)


def text(name: str, value: Any) -> str:
    """Accept a text that can be encoded and has no NUL character: a name, an option, a search term."""
    plain = content(name, value)
    if "\0" in plain:
        raise BadRequest(f"`{name}` holds a NUL character: {shown(plain)!r}", hint="leave it out")
    return plain


def is_encodable(value: str) -> bool:
    """True if a text can be encoded as UTF-8; lone surrogates cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def flag(name: str, value: Any) -> bool:
    """Accept a boolean."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):  # NumPy has its own
        refuse(name, value, "true or false", "give True or False")
    return bool(value)


def whole(least: int | None = None, most: int = _MOST) -> Check:
    """Accept an integer within bounds, of Python or NumPy."""

    def check(name: str, value: Any) -> int:
        try:
            whole_number = None if isinstance(value, bool) else operator.index(value)
        except Exception:
            whole_number = None
        if whole_number is None:
            refuse(name, value, "a whole number")
        if (least is not None and whole_number < least) or whole_number > most:
            bound = f"at least {least}" if least is not None and whole_number < least else f"at most {most}"
            raise BadRequest(f"`{name}` is {_digits(whole_number)}", hint=f"it must be {bound}")
        return whole_number

    return check


def _digits(number: int) -> str:
    return str(number) if number.bit_length() < 256 else f"a number of {number.bit_length()} bits"


def number(name: str, value: Any) -> float:
    """Accept a number. Bounds are not checked."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        refuse(name, value, "a number")
    try:
        return float(value)
    except OverflowError:
        raise BadRequest(f"`{name}` is too large", hint="give a smaller number") from None


def content(name: str, value: Any) -> str:
    """Accept a text that can be encoded; any character is allowed."""
    if not isinstance(value, str):
        refuse(name, value, "a text")
    plain = str.__str__(value)
    if not is_encodable(plain):
        raise BadRequest(
            f"`{name}` holds half of a surrogate pair: {shown(plain)!r}", hint="give a text that is valid Unicode"
        )
    return plain


def collection(of: Check) -> Check:
    """Accept a collection of texts, but not a single text."""

    def check(name: str, value: Any) -> tuple[str, ...]:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection | Iterator):
            refuse(name, value, "a collection of texts", "give a list of texts")
        try:
            members = tuple(value)
        except Exception as error:
            raise BadRequest(f"`{name}` cannot be read: {raised(error)}", hint="give a list of texts") from error
        return tuple(of(f"{name}[{at}]", member) for at, member in enumerate(members))

    return check


texts = collection(text)


def mapping(name: str, value: Any) -> dict[str, Any]:
    """Accept a mapping whose keys are texts."""
    if not isinstance(value, Mapping):
        refuse(name, value, "a mapping from names to values")
    try:
        members = dict(value)
    except Exception as error:
        raise BadRequest(f"`{name}` cannot be read: {raised(error)}", hint="give a plain dict") from error
    for key in members:
        if not isinstance(key, str):
            refuse(f"a key of {name}", key, "a text")
    return members


def path(name: str, value: Any) -> Any:
    """Accept a path that is valid for the file system; it need not exist."""
    if not isinstance(value, str | os.PathLike):
        refuse(name, value, "a path", "give a text or a pathlib.Path")
    value = path_like(name, value)
    try:
        text_path = os.fspath(value)
        encoded = os.fsencode(text_path)
    except (UnicodeEncodeError, ValueError):
        raise BadRequest(
            f"`{name}` cannot be the name of a file: {shown(value)!r}", hint="give a path that is a text"
        ) from None
    except Exception as error:
        raise BadRequest(f"`{name}` is no path: {raised(error)}", hint="give a text or a pathlib.Path") from error
    if b"\0" in encoded or not isinstance(text_path, str):
        raise BadRequest(f"`{name}` cannot be the name of a file: {shown(text_path)!r}", hint="give a path that is a text")
    return value


def path_like(name: str, value: Any) -> Any:
    """Convert a path-like object of any class to a `Path`; return other values unchanged."""
    if isinstance(value, str):
        return str.__str__(value)
    if not isinstance(value, os.PathLike) or type(value) is type(Path()):
        return value
    try:
        return Path(os.fspath(value))
    except Exception as error:
        raise BadRequest(f"`{name}` is no path: {raised(error)}", hint="give a text or a pathlib.Path") from error


def load_data(name: str, value: Any) -> Any:
    """Accept the data of a load: a source of records, or a mapping from types to tables."""
    if not isinstance(value, Mapping):
        return _source(name, value)
    return {key: _source(f"{name}[{key!r}]", source) for key, source in mapping(name, value).items()}


def _source(name: str, value: Any) -> Any:
    """Accept a valid path, or any other source of rows."""
    return path(name, value) if isinstance(value, os.PathLike) else path_like(name, value)


def address(name: str, value: Any) -> Any:
    """Accept the address of a graph: a directory or a URI, without characters that a store cannot handle."""
    path(name, value)
    return text(name, os.fspath(value))


def text_or_path(name: str, value: Any) -> Any:
    """Accept a source text, whose literals may hold any character, or the path of a source file."""
    return path(name, value) if isinstance(value, os.PathLike) else content(name, value)


def json_value(name: str, value: Any) -> Any:
    """Accept a value that can be written as JSON."""
    try:
        json.dumps(value)
    except Exception as error:
        hint = "give texts, numbers, lists and dicts"
        raise BadRequest(f"`{name}` cannot be written as JSON: {raised(error)}", hint=hint) from error
    return value


def instance(kind: type | tuple[type, ...], wanted: str) -> Check:
    """Accept an instance of a class."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            refuse(name, value, wanted)
        return value

    return check


def either(*checks: Check) -> Check:
    """Accept what one of several checks accepts; the error is that of the last one."""

    def check(name: str, value: Any) -> Any:
        for alternative in checks[:-1]:
            try:
                return alternative(name, value)
            except BadRequest:
                continue
        return checks[-1](name, value)

    return check


def callback(name: str, value: Any) -> Callable[..., Any]:
    """Accept a function. An exception that it raises becomes the cause of a `BadRequest`; errors of the family pass."""
    if not callable(value):
        refuse(name, value, "a function")

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return value(*args, **kwargs)
        except OmnigraphError:
            raise
        except Exception as error:
            raise BadRequest(f"`{name}` failed: {raised(error)}", hint="its own error is the cause of this one") from error

    return run


def raised(error: Exception) -> str:
    """Return the text of an exception of foreign code, for a message."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {shown(text)}" if text else type(error).__name__
