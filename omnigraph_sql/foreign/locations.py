"""Locations and formats of the files of foreign tables."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa

from omnigraph_sql.arguments import shown
from omnigraph_sql.errors import BadRequest, NotFound

Format = Literal["parquet", "csv"]
_SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".parq": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}
PACKED = ".gz"
_WILD = frozenset("*?[")


@dataclass(frozen=True)
class CsvOptions:
    """The format options of a CSV file."""

    delimiter: str = ","
    header: bool = True
    schema: pa.Schema | None = None
    """All columns; None to infer them from the first rows."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types of single columns, which override the inferred ones."""


@dataclass(frozen=True)
class Location:
    """One file, the files below a directory, or the files that match a pattern."""

    path: str
    """Absolute."""
    is_pattern: bool
    format: Format
    suffix: str
    """The suffix of the file names."""

    @property
    def is_directory(self) -> bool:
        return not self.is_pattern and Path(self.path).is_dir()

    def files(self) -> list[Path]:
        """Return the files that exist now, sorted."""
        if self.is_pattern:
            return sorted(path for path in map(Path, glob.iglob(self.path, recursive=True)) if path.is_file())
        if self.is_directory:
            return sorted(_below(self.path, self.suffix))
        return [Path(self.path)] if Path(self.path).is_file() else []

    def for_datafusion(self) -> str:
        """Return the path for DataFusion; a file URI, so that special characters are not read as a pattern."""
        if self.is_pattern:
            return self.path
        return Path(self.path).as_uri() + ("/" if self.is_directory else "")

    def is_flat(self, files: list[Path]) -> bool:
        """True if all engines list the same files; they differ in how they treat subdirectories and hidden files."""
        parent = Path(self.path) if self.is_directory else Path(self.path).parent
        if self.is_directory:
            return all(file.parent == parent for file in files)
        if any(char in _WILD for char in str(parent)):
            return False
        with os.scandir(parent) as entries:
            # In some engines, a `*` also matches hidden files and directories.
            return not any(entry.is_dir() or entry.name.startswith(".") for entry in entries)

    def for_duckdb(self) -> str:
        if self.is_pattern:
            return self.path
        escaped = "".join(f"[{char}]" if char in _WILD else char for char in self.path)
        return f"{escaped}/**/*{self.suffix}" if self.is_directory else escaped


def locate(source: str, file_format: str | None) -> Location:
    """Find the files of a source, and their format."""
    try:
        return _find(source, file_format)
    except (OSError, RuntimeError) as error:  # a name that is too long, or the home directory of an unknown user
        reason = getattr(error, "strerror", None) or str(error)
        hint = "give the path of a file or a directory, or a pattern as *.parquet"
        raise BadRequest(f"`{shown(source)}` cannot be looked up: {reason}", hint=hint) from None


def _find(source: str, file_format: str | None) -> Location:
    path = str(Path(source).expanduser().absolute())
    is_pattern = not Path(path).exists() and any(char in _WILD for char in path)
    suffix = _suffix(path)
    if Path(path).is_dir() and _format(suffix) is None:
        suffix = _suffix_below(path, file_format)
    detected = _format(suffix) if file_format is None else _checked_format(file_format)
    if not is_pattern and not Path(path).exists():
        hint = "give the path of a file or a directory, or a pattern as *.parquet"
        raise NotFound(f"there is no file `{path}`", what="file", name=path, hint=hint)
    if detected is None:
        raise BadRequest(f"`{source}` does not say what it holds", hint='add format="parquet" or format="csv"')
    location = Location(path, is_pattern, detected, suffix)
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


def _checked_format(form: object) -> Format:
    if not isinstance(form, str) or form not in ("parquet", "csv"):
        raise BadRequest(f"`{shown(form)}` is no format of files", hint="write parquet or csv")
    return form  # type: ignore[return-value]


def _below(directory: str, suffix: str) -> Iterator[Path]:
    return (path for path in Path(directory).rglob(f"*{suffix}") if path.is_file())


def _suffix_below(directory: str, file_format: str | None) -> str:
    """Return the common suffix of the data files in a directory."""
    suffixes = {_suffix(str(path)) for path in _below(directory, "")}
    suffixes = {
        suffix for suffix in suffixes if (_format(suffix) if file_format is None else _format(suffix) == file_format)
    }
    if len(suffixes) > 1:
        listed = ", ".join(sorted(suffixes))
        hint = 'say which with format="parquet" or format="csv", or give a pattern'
        raise BadRequest(f"`{directory}` holds files of several kinds: {listed}", hint=hint)
    return suffixes.pop() if suffixes else f".{file_format or 'parquet'}"
