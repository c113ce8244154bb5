"""Project settings: `omnigraph.yaml`, with graphs, schema, queries, default branch and foreign tables."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Any, TypeVar

from omnigraph_sql.arguments import checked, optional, path
from omnigraph_sql.errors import Configuration, NotFound
from omnigraph_sql.yaml_files import YamlChecker, default, read_yaml

T = TypeVar("T")
FILE_NAME = "omnigraph.yaml"
SECTIONS = ("graphs", "servers", "schema", "queries", "branch", "foreign", "checks")
_ADDRESSES = {"graphs": "uri", "servers": "url"}
"""The sections with addresses, each with the key of the address in a mapping."""
_MAX_REMARKS = 5
"""The number of unknown keys that warnings name."""
_SOURCES = ("source", "path", "uri")
_ENTRY = (*_SOURCES, "format", "table", "options")


@dataclass(frozen=True)
class ForeignEntry:
    """A foreign table of the file: the arguments of `Graph.register`."""

    name: str
    source: str = field(repr=False)
    """It may hold a password, so `repr` omits it."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """The settings of a project file."""

    path: Path
    """The file."""
    foreign: tuple[ForeignEntry, ...] = ()
    """Foreign tables to register."""
    queries: tuple[Path, ...] = ()
    """The `.gq` files, in the order of the file."""
    graphs: Mapping[str, str] = field(default_factory=dict)
    """Addresses of graphs by name."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """Addresses of servers by name. This release does not use them."""
    schema: Path | None = None
    """The file of the schema."""
    branch: str | None = None
    """The default branch of commands."""
    checks: Mapping[str, str | Path] = field(default_factory=dict)
    """Reads that must return no row, by name: texts of SQL or `.gq`, or files."""


class ProjectFile:
    """A project file. A section is checked on first use, so a mistake in an unused section breaks nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = _Reader(path)
        self._sections = self._reader.mapping(default(read_yaml(path), {}), "", None)
        self.unknown = tuple(name for name in self._sections if name not in SECTIONS)
        """Unknown keys."""
        if len(self.unknown) == len(self._sections) > 0 and not self._is_misspelt():
            text = f"{path} seems to be for another tool: none of its keys is known"
            raise Configuration(text, what=str(path), hint=_listed(SECTIONS))

    def _is_misspelt(self) -> bool:
        """True if most of the unknown keys resemble known ones."""
        from omnigraph_compiler.diagnostics import did_you_mean

        looked_at = self.unknown[:_MAX_REMARKS]
        return sum(did_you_mean(name, SECTIONS) is not None for name in looked_at) * 2 > len(looked_at)

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """Warnings about unknown keys, with hints."""
        from omnigraph_compiler.diagnostics import clip, did_you_mean

        unknown = [*((name, SECTIONS) for name in self.unknown), *self._unknown_members()]
        remarks = [
            (f"{self.path}: `{clip(name)}` is not known, and is ignored", did_you_mean(name, known) or _listed(known))
            for name, known in unknown[:_MAX_REMARKS]
        ]
        more = len(unknown) - _MAX_REMARKS
        return remarks if more < 1 else [*remarks, (f"{self.path}: {more} more keys are not known", _listed(SECTIONS))]

    def _unknown_members(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the unknown keys beside the addresses of graphs and servers, each with the known one."""
        for section, member in _ADDRESSES.items():
            entries = self._sections.get(section)
            for name, entry in entries.items() if isinstance(entries, dict) else ():
                if isinstance(entry, dict) and member in entry:
                    yield from ((f"{section}.{name}.{key}", (member,)) for key in entry if key != member)

    def _section(self, name: str, read: Callable[[Any], T], absent: Any) -> T:
        return read(default(self._sections.get(name), absent))

    @cached_property
    def foreign_names(self) -> tuple[str, ...]:
        """The names of the foreign tables."""
        return tuple(self._section("foreign", lambda value: self._reader.mapping(value, "foreign", None), {}))

    def foreign_entry(self, name: str) -> ForeignEntry:
        """Check one foreign table, without the others."""
        return self._reader.entry(name, self._sections["foreign"][name])

    @cached_property
    def queries(self) -> tuple[Path, ...]:
        """The `.gq` files, in the order of the file."""
        return self._section("queries", self._reader.queries, [])

    @cached_property
    def graphs(self) -> dict[str, str]:
        """Addresses of graphs by name."""
        return self._section("graphs", lambda value: self._reader.addresses("graphs", value), {})

    @cached_property
    def servers(self) -> dict[str, str]:
        """Addresses of servers by name."""
        return self._section("servers", lambda value: self._reader.addresses("servers", value), {})

    @property
    def server_names(self) -> tuple[str, ...]:
        """The names of servers, unchecked."""
        entries = self._sections.get("servers")
        return tuple(entries) if isinstance(entries, dict) else ()

    @cached_property
    def schema(self) -> Path | None:
        """The file of the schema."""
        file = self._section("schema", lambda value: self._reader.optional_text("schema", value), None)
        return None if file is None else Path(self._reader.beside(file))

    @cached_property
    def branch(self) -> str | None:
        """The default branch of commands."""
        return self._section("branch", lambda value: self._reader.optional_text("branch", value), None)

    @cached_property
    def checks(self) -> dict[str, str | Path]:
        """Reads that must return no row, by name."""
        return self._section("checks", self._reader.checks, {})

    def settings(self) -> ProjectSettings:
        """Check all sections, and return the settings."""
        return ProjectSettings(
            path=self.path,
            foreign=tuple(map(self.foreign_entry, self.foreign_names)),
            queries=self.queries,
            graphs=self.graphs,
            servers=self.servers,
            schema=self.schema,
            branch=self.branch,
            checks=self.checks,
        )


def is_listed(graphs: Mapping[str, str], uri: str) -> bool:
    """True if a graph is among the addresses of a project file, or there are none."""
    return not graphs or _place(uri) in map(_place, graphs.values())


def _place(uri: str) -> str:
    """An address that is the same for every way to write it."""
    return uri.rstrip("/") if "://" in uri else os.path.realpath(uri)


def nearest(start: Path | None = None) -> Path | None:
    """Return the path of `omnigraph.yaml` in a directory, by default the working one, or the nearest above it."""
    try:
        start = (Path.cwd() if start is None else start).absolute()
    except OSError:  # the working directory was removed
        return None
    # `Path.is_file` would raise for a directory without permission.
    files = (directory / FILE_NAME for directory in (start, *start.parents))
    return next((file for file in files if os.path.isfile(file)), None)


@checked(start=optional(path))
def find_project(start: str | os.PathLike[str] | None = None) -> ProjectSettings:
    """Load the `omnigraph.yaml` in a directory, by default the working one, or the nearest above it."""
    file = nearest(None if start is None else Path(start))
    if file is None:
        where = "the working directory" if start is None else str(start)
        hint = f"make a file {FILE_NAME}, or give the path of one"
        raise NotFound(f"there is no {FILE_NAME} in {where} or above it", what="file", name=FILE_NAME, hint=hint)
    return load_project(file)


@checked(path=path)
def load_project(path: str | os.PathLike[str]) -> ProjectSettings:
    """Load a project file, or the `omnigraph.yaml` in a directory."""
    file = open_project(Path(path))
    for text, hint in file.remarks:
        warnings.warn(f"{text}; {hint}", UserWarning, stacklevel=3)
    return file.settings()


def open_project(path: Path) -> ProjectFile:
    """Open a project file, or the `omnigraph.yaml` in a directory, without checking its sections."""
    return ProjectFile(Path(os.path.abspath(path / FILE_NAME if os.path.isdir(path) else path)))


def _listed(known: tuple[str, ...]) -> str:
    from omnigraph_compiler.diagnostics import listing

    return f"there {'are' if len(known) > 1 else 'is'} {listing(known)}"


class _Reader(YamlChecker):
    """Checks a project file key by key."""

    def entry(self, name: str, value: Any) -> ForeignEntry:
        """Check a foreign table."""
        key = f"foreign.{name}"
        entry = self.mapping(value, key, _ENTRY)
        sources = [member for member in _SOURCES if member in entry]
        if len(sources) != 1:
            wrong = "several of" if sources else "none of"
            self.refuse(key, f"has {wrong} source, path and uri", "give one of them")
        members: dict[str, Any] = {member: entry[member] for member in ("format", "table") if member in entry}
        options = self.mapping(default(entry.get("options"), {}), f"{key}.options", None)
        for option in members.keys() & options.keys():
            self.refuse(f"{key}.options.{option}", "is given twice", f"write {option} beside options, or in them")
        values = {option: self.filled(f"{key}.{option}", value) for option, value in (members | options).items()}
        return ForeignEntry(
            name, self.beside(self.text(f"{key}.{sources[0]}", entry[sources[0]], "a path or an address")), values
        )

    def queries(self, value: Any) -> tuple[Path, ...]:
        """Return the files that a list of paths and patterns matches."""
        if not isinstance(value, list):
            self.refuse("queries", "is not a list", "write a list of .gq files or patterns")
        files: dict[Path, None] = {}
        for at, item in enumerate(value):
            pattern = self.text(f"queries[{at}]", item, "the path of a .gq file, or a pattern")
            matches = sorted(glob(self.beside(pattern), recursive=True))
            if not matches:
                self.refuse(f"queries[{at}]", f"names no file: {pattern}", "look at the path, which starts beside this file")
            files |= dict.fromkeys(map(Path, matches))
        return tuple(files)

    def addresses(self, key: str, value: Any) -> dict[str, str]:
        """Return addresses by name. Each is a text, or a mapping with the address; what else is in it is ignored."""
        member = _ADDRESSES[key]
        entries = self.mapping(value, key, None)
        addresses = {}
        for name, entry in entries.items():
            place, address = f"{key}.{name}", entry
            if isinstance(entry, dict):
                allowed = None if member in entry else (member,)
                place, address = f"{place}.{member}", self.mapping(entry, place, allowed).get(member)
            addresses[name] = self.beside(self.text(place, address, "a path or an address"))
        return addresses

    def checks(self, section: Any) -> dict[str, str | Path]:
        """Return texts and files by name: a text, or a mapping with `sql`, `gq` or `file` as its only member."""
        checks: dict[str, str | Path] = {}
        for name, entry in self.mapping(section, "checks", None).items():
            key, member = f"checks.{name}", "sql"
            if isinstance(entry, dict):
                members = self.mapping(entry, key, ("sql", "gq", "file"))
                if len(members) != 1:
                    self.refuse(key, "has not exactly one member", "give one of sql, gq and file")
                member = next(iter(members))
            value = entry[member] if isinstance(entry, dict) else entry
            text = self.text(key, value, "a statement of SQL or a query")
            checks[name] = Path(self.beside(text)) if member == "file" else text
        return checks

    def optional_text(self, key: str, value: Any) -> str | None:
        """Check a text; return None for a missing key."""
        return None if value is None else self.text(key, value, "a text")

    def text(self, key: str, value: Any, wanted: str) -> str:
        """Check a text that is not empty, and substitute environment variables in it."""
        text = self.filled(key, value)
        if not isinstance(text, str) or not text or "\0" in text:
            self.refuse(key, "is not a text", f"write {wanted}")
        return text

    def beside(self, text: str) -> str:
        """Resolve a relative path from the directory of the file; return addresses unchanged."""
        return text if "://" in text else os.path.join(self.path.parent, os.path.expanduser(text))
