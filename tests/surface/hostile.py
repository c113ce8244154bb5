"""Values that no parameter was made for: of the wrong type, size or encoding, or that fail when they are looked at."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa


class Failure(Exception):
    """Raised by the values below; whoever sees it has let it through."""


class Unprintable:
    """Fails in every text that is made of it."""

    def __str__(self) -> NoReturn:
        raise Failure("str")

    def __repr__(self) -> NoReturn:
        raise Failure("repr")

    def __format__(self, spec: str) -> NoReturn:
        raise Failure("format")


class Unreadable:
    """Is iterable, and fails when it is read."""

    def __iter__(self) -> Iterator[Any]:
        raise Failure("iter")


class BrokenList(Sequence[Any]):
    """A sequence that says it has three members and gives none."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, at: Any) -> NoReturn:
        raise Failure("getitem")


class BrokenMapping(Mapping[str, Any]):
    """A mapping whose keys are known and whose values are not."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        yield "code"

    def __getitem__(self, name: str) -> NoReturn:
        raise Failure("getitem")


class BrokenPath:
    """A path that cannot say what it is."""

    def __fspath__(self) -> NoReturn:
        raise Failure("fspath")


class NumberPath:
    """A path that says something else."""

    def __fspath__(self) -> Any:
        return 7


class UnprintableText(str):
    """A text that says something else of itself, or fails."""

    __slots__ = ()

    def __str__(self) -> NoReturn:
        raise Failure("str")

    def __repr__(self) -> NoReturn:
        raise Failure("repr")

    def __format__(self, spec: str) -> NoReturn:
        raise Failure("format")


class Undecided:
    """Is neither true nor false, equal to nothing and not hashable."""

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise Failure("bool")

    def __eq__(self, other: object) -> bool:
        raise Failure("eq")


class BrokenStream:
    """Arrow data that ends in an error."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> NoReturn:
        raise Failure("stream")


def fail(*_: Any, **__: Any) -> NoReturn:
    """A callback that fails."""
    raise Failure("call")


def nested(depth: int, make: Callable[[Any], Any]) -> Any:
    """A value inside a value inside a value."""
    found: Any = 1
    for _ in range(depth):
        found = make(found)
    return found


def _failing_rows() -> Iterator[Any]:
    yield 1
    raise Failure("next")


VALUES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "true": lambda: True,
    "zero": lambda: 0,
    "minus_one": lambda: -1,
    "two_to_70": lambda: 2**70,
    "minus_two_to_70": lambda: -(2**70),
    "huge_integer": lambda: 10**5000,
    "nan": lambda: math.nan,
    "infinity": lambda: math.inf,
    "half": lambda: 0.5,
    "decimal_nan": lambda: decimal.Decimal("sNaN"),
    "complex": lambda: 1j,
    "empty_text": lambda: "",
    "blank": lambda: " \t\n",
    "text": lambda: "x",
    "nul": lambda: "a\0b",
    "lone_surrogate": lambda: "a\ud800b",
    "undecoded_byte": lambda: "caf\udce9",
    "long_text": lambda: "x" * 70_000,
    "quotes": lambda: "'\"`;--\\{}%s",
    "open_brackets": lambda: "[" * 20_000,
    "open_parentheses": lambda: "(" * 20_000,
    "json_depth": lambda: "[" * 20_000 + "]" * 20_000,
    "newlines": lambda: "\n" * 1000,
    "bidi": lambda: "\u202eabc\u0007\x1b[31m",
    "dots": lambda: "../..",
    "dot": lambda: ".",
    "slash": lambda: "ports.csv/",
    "address": lambda: "ftp://[::1",
    "http": lambda: "http://127.0.0.1:1/",
    "s3": lambda: "s3://",
    "duration_overflow": lambda: f"{'9' * 400}w",
    "digits": lambda: "9" * 6000,
    "bytes": lambda: b"x",
    "bad_bytes": lambda: b"\xff\xfe",
    "bytearray": lambda: bytearray(b"x"),
    "empty_list": list,
    "list": lambda: ["x"],
    "list_of_none": lambda: [None],
    "list_of_surrogates": lambda: ["\ud800"],
    "list_of_lists": lambda: [["x"]],
    "tuple": lambda: ("x",),
    "set": lambda: {"x"},
    "empty_mapping": dict,
    "mapping": lambda: {"x": 1},
    "mapping_of_numbers": lambda: {1: 2},
    "mapping_of_surrogates": lambda: {"\ud800": "\ud800"},
    "deep_list": lambda: nested(3000, lambda inner: [inner]),
    "deep_mapping": lambda: nested(3000, lambda inner: {"x": inner}),
    "generator": _failing_rows,
    "numpy_array": lambda: np.arange(3),
    "numpy_integer": lambda: np.int64(3),
    "numpy_bool": lambda: np.bool_(True),
    "numpy_text": lambda: np.str_("x"),
    "numpy_objects": lambda: np.array([None, "x"], dtype=object),
    "arrow_array": lambda: pa.array([1]),
    "arrow_scalar": lambda: pa.scalar("x"),
    "arrow_table": lambda: pa.table({"x": [1]}),
    "empty_table": lambda: pa.table({}),
    "path": lambda: Path("x"),
    "empty_path": Path,
    "path_nul": lambda: Path("a\0b"),
    "path_surrogate": lambda: Path("a\ud800b"),
    "path_long": lambda: Path("x" * 5000),
    "path_below_file": lambda: Path("ports.csv/x"),
    "path_directory": lambda: Path("."),
    "duration": lambda: timedelta(days=-1),
    "longest_duration": lambda: timedelta.max,
    "object": object,
    "class": lambda: int,
    "module": lambda: math,
    "unprintable": Unprintable,
    "unreadable": Unreadable,
    "broken_list": BrokenList,
    "broken_mapping": BrokenMapping,
    "broken_path": BrokenPath,
    "number_path": NumberPath,
    "unprintable_text": lambda: UnprintableText("x"),
    "undecided": Undecided,
    "broken_stream": BrokenStream,
    "failing_call": lambda: fail,
    "call": lambda: lambda *_, **__: None,
}


def _inside(make: Callable[[], Any], wrap: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: wrap(make())


NESTED: dict[str, Callable[[], Any]] = {
    f"{place}_{name}": _inside(make, wrap)
    for name, make in VALUES.items()
    for place, wrap in (
        ("code", lambda value: {"code": value}),
        ("codes", lambda value: {"code": "x", "codes": ["y", value]}),
    )
}
"""The same inside of parameters: as the value of one, and in a list."""
