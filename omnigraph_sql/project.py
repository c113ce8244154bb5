"""Settings of a directory of work: `omnigraph.yaml`, with its foreign tables and its files of queries."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any, NoReturn

from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql.errors import Configuration, NotFound

FILE_NAME = "omnigraph.yaml"
_SECTIONS = ("foreign", "queries")
_SOURCES = ("source", "path", "uri")
_ENTRY = (*_SOURCES, "format", "table", "options")
_VARIABLE = re.compile(r"\$(\$)?\{([^}]*)\}")


@dataclass(frozen=True)
class ForeignEntry:
    """A foreign table of the file: what `Graph.register` takes."""

    name: str
    source: str = field(repr=False)
    """May hold a password, so it is not shown."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Project:
    """What a file says."""

    path: Path
    foreign: tuple[ForeignEntry, ...] = ()
    queries: tuple[Path, ...] = ()
    """Files of `.gq`, in the order of the file."""


def find_project(start: Path | None = None) -> Project:
    """The settings of the nearest `omnigraph.yaml`: of a directory, by default the working one, or the next above it."""
    start = (Path.cwd() if start is None else start).absolute()
    for directory in (start, *start.parents):
        if (directory / FILE_NAME).is_file():
            return load_project(directory / FILE_NAME)
    hint = f"make a file {FILE_NAME}, or give the path of one"
    raise NotFound(f"there is no {FILE_NAME} in {start} or above it", what="file", name=FILE_NAME, hint=hint)


def load_project(path: Path) -> Project:
    """The settings of a file, or of the `omnigraph.yaml` in a directory."""
    path = (path / FILE_NAME if path.is_dir() else path).absolute()
    return _Reader(path).project(read_yaml(path))


def read_yaml(path: Path) -> Any:
    """What a YAML file says; raises `NotFound` or `Configuration`, which tell where it is no YAML."""
    import yaml

    try:
        text = path.read_text("utf-8")
    except OSError as error:
        hint = "give the path of a file that can be read"
        raise NotFound(f"{path} cannot be read: {error.strerror}", what="file", name=str(path), hint=hint) from None
    except UnicodeDecodeError:
        raise Configuration(f"{path} is not UTF-8", what=str(path), hint="save it as UTF-8") from None

    class Loader(yaml.SafeLoader):
        """Refuses a key that is given twice, which would hide the first."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.constructor.ConstructorError(None, None, f"`{key}` is given twice", node.start_mark)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line + 1
        text = f"{path}:{line} is not YAML: {error.problem}"
        raise Configuration(text, what=str(path), hint="look at indents, colons and quotes there") from None


def _or(given: Any, default: Any) -> Any:
    """A value, or what stands for a key that is left out or left empty."""
    return default if given is None else given


class YamlChecker:
    """Checks what a file says. Every complaint names the file and the key, and says what to do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mapping(self, given: Any, key: str, known: Collection[str] | None) -> dict[str, Any]:
        """A mapping with known keys only; any, if they are None."""
        if not isinstance(given, dict):
            self.refuse(key, "is not a mapping", "write KEY: VALUE lines")
        for name in given:
            if not isinstance(name, str):
                self.refuse(f"{key}.{name}" if key else str(name), "is not a text", "put quotes around the key")
            if known is not None and name not in known:
                hint = did_you_mean(name, known) or f"there are {listing(known)}"
                self.refuse(f"{key}.{name}" if key else name, "is not known", hint)
        return given

    def filled(self, key: str, value: Any) -> Any:
        """A value with the variables of the environment in it."""
        if isinstance(value, dict):
            return {each: self.filled(f"{key}.{each}" if key else str(each), inner) for each, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(f"{key}[{at}]", inner) for at, inner in enumerate(value)]
        if not isinstance(value, str):
            return value

        def variable(found: re.Match[str]) -> str:
            if found[1]:
                return found[0][1:]
            if found[2] not in os.environ:
                hint = "set it, or write $${ for a plain ${"
                self.refuse(key, f"needs the environment variable `{found[2]}`, which is not set", hint)
            return os.environ[found[2]]

        return _VARIABLE.sub(variable, value)

    def refuse(self, key: str, wrong: str, hint: str | None) -> NoReturn:
        """Raise what is wrong with a key, and what to do."""
        what = f"`{key}`" if key else "the file"
        raise Configuration(f"{self.path}: {what} {wrong}", what=key or str(self.path), hint=hint)


class _Reader(YamlChecker):
    """Checks what a project says, key by key."""

    def project(self, parsed: Any) -> Project:
        sections = self.mapping(_or(parsed, {}), "", _SECTIONS)
        entries = self.mapping(_or(sections.get("foreign"), {}), "foreign", None)
        foreign = tuple(self._entry(name, entry) for name, entry in entries.items())
        return Project(self.path, foreign, self._queries(_or(sections.get("queries"), [])))

    def _entry(self, name: str, given: Any) -> ForeignEntry:
        key = f"foreign.{name}"
        entry = self.mapping(given, key, _ENTRY)
        sources = [each for each in _SOURCES if each in entry]
        if len(sources) != 1:
            wrong = "several of" if sources else "none of"
            self.refuse(key, f"has {wrong} source, path and uri", "give one of them")
        kept: dict[str, Any] = {each: entry[each] for each in ("format", "table") if each in entry}
        options = self.mapping(_or(entry.get("options"), {}), f"{key}.options", None)
        for option in kept.keys() & options.keys():
            self.refuse(f"{key}.options.{option}", "is given twice", f"write {option} beside options, or in them")
        values = {each: self.filled(f"{key}.{each}", value) for each, value in (kept | options).items()}
        return ForeignEntry(name, self._source(f"{key}.{sources[0]}", entry[sources[0]]), values)

    def _source(self, key: str, given: Any) -> str:
        source = self.filled(key, given)
        if not isinstance(source, str) or not source:
            self.refuse(key, "is not a text", "write a path or an address")
        return source if "://" in source else str(self.path.parent / Path(source).expanduser())

    def _queries(self, given: Any) -> tuple[Path, ...]:
        if not isinstance(given, list):
            self.refuse("queries", "is not a list", "write a list of .gq files or patterns")
        found: dict[Path, None] = {}
        for at, each in enumerate(given):
            pattern = self.filled(f"queries[{at}]", each)
            if not isinstance(pattern, str):
                self.refuse(f"queries[{at}]", "is not a text", "write the path of a .gq file, or a pattern")
            paths = sorted(glob(str(self.path.parent / Path(pattern).expanduser()), recursive=True))
            if not paths:
                self.refuse(f"queries[{at}]", f"names no file: {pattern}", "look at the path, which starts beside this file")
            found |= dict.fromkeys(map(Path, paths))
        return tuple(found)
