"""Where the files of a foreign table are, and what they are."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa

from omnigraph_sql.errors import BadRequest, NotFound

Format = Literal["parquet", "csv"]
_SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".parq": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}
PACKED = ".gz"
_WILD = frozenset("*?[")


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is written."""

    delimiter: str = ","
    header: bool = True
    schema: pa.Schema | None = None
    """All columns; None to guess them from the first rows."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Those of some columns, where guessing would go wrong."""


@dataclass(frozen=True)
class Location:
    """Files: one, those below a directory, or those of a pattern."""

    path: str
    """Absolute."""
    is_pattern: bool
    format: Format
    suffix: str
    """What the names end with."""

    @property
    def is_directory(self) -> bool:
        return not self.is_pattern and Path(self.path).is_dir()

    def files(self) -> list[Path]:
        """The files that there are now, sorted."""
        if self.is_pattern:
            return sorted(path for path in map(Path, glob.iglob(self.path, recursive=True)) if path.is_file())
        if self.is_directory:
            return sorted(_below(self.path, self.suffix))
        return [Path(self.path)] if Path(self.path).is_file() else []

    def for_datafusion(self) -> str:
        """As DataFusion wants it; the form of an address keeps signs in names from being taken for a pattern."""
        if self.is_pattern:
            return self.path
        return Path(self.path).as_uri() + ("/" if self.is_directory else "")

    def is_flat(self, files: list[Path]) -> bool:
        """Whether engines that do not agree on what a pattern or directory has further down find the same files."""
        parent = Path(self.path) if self.is_directory else Path(self.path).parent
        if self.is_directory:
            return all(file.parent == parent for file in files)
        if any(char in _WILD for char in str(parent)):
            return False
        with os.scandir(parent) as entries:
            # To some, a `*` also stands for a dot at the beginning, or for the name of a directory.
            return not any(entry.is_dir() or entry.name.startswith(".") for entry in entries)

    def for_duckdb(self) -> str:
        if self.is_pattern:
            return self.path
        escaped = "".join(f"[{char}]" if char in _WILD else char for char in self.path)
        return f"{escaped}/**/*{self.suffix}" if self.is_directory else escaped


def locate(source: str, given: str | None) -> Location:
    """Where the files of a source are, and what they are."""
    path = str(Path(source).expanduser().absolute())
    is_pattern = not Path(path).exists() and any(char in _WILD for char in path)
    suffix = _suffix(path)
    if Path(path).is_dir() and _format(suffix) is None:
        suffix = _suffix_below(path, given)
    form = _format(suffix) if given is None else _given(given)
    if not is_pattern and not Path(path).exists():
        hint = "give the path of a file or a directory, or a pattern as *.parquet"
        raise NotFound(f"there is no file `{path}`", what="file", name=path, hint=hint)
    if form is None:
        raise BadRequest(f"`{source}` does not say what it holds", hint='add format="parquet" or format="csv"')
    location = Location(path, is_pattern, form, suffix)
    if not location.files():
        hint = f"names must end with `{suffix}`" if location.is_directory else "look at the pattern and the directory"
        raise NotFound(f"there are no files in `{path}`", what="file", name=path, hint=hint)
    return location


def _suffix(path: str) -> str:
    name = Path(path).name
    packed = PACKED if name.lower().endswith(PACKED) else ""
    return Path(name[: len(name) - len(packed)]).suffix + packed


def _format(suffix: str) -> Format | None:
    return _SUFFIXES.get(suffix.lower().removesuffix(PACKED))


def _given(form: str) -> Format:
    if form not in ("parquet", "csv"):
        raise BadRequest(f"`{form}` is no format of files", hint="write parquet or csv")
    return form  # type: ignore[return-value]


def _below(directory: str, suffix: str) -> Iterator[Path]:
    return (path for path in Path(directory).rglob(f"*{suffix}") if path.is_file())


def _suffix_below(directory: str, given: str | None) -> str:
    """What the names of the data files in a directory end with: all of them the same."""
    found = {_suffix(str(path)) for path in _below(directory, "")}
    found = {suffix for suffix in found if (_format(suffix) if given is None else _format(suffix) == given)}
    if len(found) > 1:
        listed = ", ".join(sorted(found))
        hint = 'say which with format="parquet" or format="csv", or give a pattern'
        raise BadRequest(f"`{directory}` holds files of several kinds: {listed}", hint=hint)
    return found.pop() if found else f".{given or 'parquet'}"
