"""The project file of a command: `--config FILE`, or the nearest `omnigraph.yaml`.

A named file must be valid. The nearest file may belong to another tool: its faults are
warnings, and errors only for a command that needs a value of it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph_sql.cli import output
from omnigraph_sql.cli.errors import warning_lines
from omnigraph_sql.cli.options import CONFIG
from omnigraph_sql.errors import BadRequest, Configuration, OmnigraphError
from omnigraph_sql.project import FILE_NAME, ProjectFile, is_listed, nearest, open_project

if TYPE_CHECKING:
    from omnigraph_sql.graph import Graph

_OPENED = "omnigraph_sql.cli.projects"
_MAIN = "main"


@dataclass(frozen=True)
class _Opened:
    """The project file of this command, and its fault, if it has one."""

    file: ProjectFile | None
    fault: OmnigraphError | None = None


def project_file() -> ProjectFile | None:
    """The project file of `--config`, or the nearest usable one."""
    return _opened().file


def required_file(option: str) -> ProjectFile:
    """The project file, for a command that needs a value of it. `option` names the alternative."""
    opened = _opened()
    if opened.fault is not None:
        raise opened.fault
    if opened.file is None:
        message = f"Missing {option}: give it, or name it in a file {FILE_NAME}."
        raise click.UsageError(message, click.get_current_context(silent=True))
    return opened.file


def _opened() -> _Opened:
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    if _OPENED not in meta:
        meta[_OPENED] = _open(meta.get(CONFIG))
    opened: _Opened = meta[_OPENED]
    return opened


def _open(config: str | None) -> _Opened:
    path = nearest() if config is None else Path(config)
    if path is None:
        return _Opened(None)
    try:
        file = open_project(path)
    except OmnigraphError as error:
        if config is not None:
            raise
        _warn(f"{path} is ignored: {_without(error.message, path)}", error.hint)
        return _Opened(None, error)
    for text, hint in file.remarks:
        _warn(text, hint)
    return _Opened(file)


def _without(message: str, path: Path) -> str:
    """A message that begins with the path of its file, without it."""
    rest = message.removeprefix(str(path))
    return f"line {rest[1:]}" if re.match(r":[0-9]", rest) else rest.lstrip(": ")


def _warn(text: str, hint: str | None) -> None:
    output.write_styled(warning_lines(text, hint), sys.stderr)


# Graphs and branches -------------------------------------------------------------------------------------------------


def graph_address(text: str) -> str:
    """The address of a graph that the project file names, or the text itself. `./NAME` is always a directory."""
    if not text or "/" in text or text in (".", ".."):
        return text
    file = project_file()
    if file is None:
        return text
    try:
        if text in file.graphs:
            return file.graphs[text]
    except Configuration:
        if not os.path.exists(text):
            raise
        return text
    if text in file.server_names and not os.path.exists(text):
        message = f"`{text}` is a server in {file.path}, and servers cannot be asked yet"
        raise BadRequest(message, hint="give the directory or s3://BUCKET/PREFIX of a graph")
    return text


def default_branch(*, writes: bool = False) -> str:
    """The default branch. A write fails if the project file does not name it validly."""
    file = project_file()
    try:
        return (file.branch if file is not None else None) or _MAIN
    except Configuration as error:
        if writes:
            raise
        _warn(f"{error.message}; {_MAIN} is read", error.hint)
        return _MAIN


# Schemas and queries -------------------------------------------------------------------------------------------------


def schema_path(path: str | None, option: str) -> str:
    """The schema file of the command line, or that of the project."""
    if path is not None:
        return path
    file = required_file(option)
    if file.schema is None:
        raise BadRequest(f"{file.path} names no schema", hint=f"write `schema: FILE.pg` there, or give the {option}")
    return shown(file.schema)


def query_paths(paths: Sequence[str], option: str) -> tuple[str, ...]:
    """The query files of the command line, or those of the project."""
    if paths:
        return tuple(paths)
    file = required_file(option)
    if not file.queries:
        raise BadRequest(f"{file.path} names no queries", hint=f"write `queries: [FILE.gq]` there, or give the {option}")
    return tuple(map(shown, file.queries))


def schema_and_queries(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The files of `[SCHEMA] [QUERIES]...`; the project supplies those that are left out.

    A first `.gq` is a file of queries if the project names the schema.
    """
    has_schema = bool(words) and not (words[0].endswith(".gq") and _names_schema())
    schema, queries = (words[0], words[1:]) if has_schema else (None, words)
    return schema_path(schema, "argument 'SCHEMA'"), query_paths(queries, "argument 'QUERIES'")


def _names_schema() -> bool:
    file = project_file()
    return file is not None and file.schema is not None


def shown(path: Path) -> str:
    """The path, relative to the working directory if it is below it."""
    try:
        return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    except OSError:
        return str(path)


# SQL -----------------------------------------------------------------------------------------------------------------


def use_for(graph: Graph, statement: str) -> None:
    """Use the project for one statement; faults in parts that it does not name are ignored."""
    file = project_file()
    if file is None:
        return
    text = statement.lower()
    if "gq" in text:
        graph.use_queries(*file.queries)
    try:
        names = file.foreign_names
    except Configuration as error:
        _warn(f"foreign tables are left out: {error.message}", error.hint)
        return
    for name in names:
        if name.lower() in text:
            entry = file.foreign_entry(name)
            graph.register(entry.name, entry.source, **entry.options)


def use_checks(graph: Graph) -> None:
    """Use the checks of the project, if they are for this graph. A faulty check stops the command: it guards the graph."""
    file = project_file()
    if file is not None and file.checks and is_listed(file.graphs, graph.uri):
        graph.use_checks(file.checks)


def project_checks(uri: str) -> dict[str, str | Path] | None:
    """The checks of the project for a graph."""
    file = project_file()
    return file.checks if file is not None and file.checks and is_listed(file.graphs, uri) else None


def use_all(graph: Graph) -> None:
    """Use the project for a session; a faulty part is reported and skipped."""
    file = project_file()
    if file is None:
        return
    try:
        graph.use_queries(*file.queries)
    except OmnigraphError as error:
        _warn(f"files of queries are left out: {error.message}", error.hint)
    try:
        names = file.foreign_names
    except OmnigraphError as error:
        _warn(f"foreign tables are left out: {error.message}", error.hint)
        return
    for name in names:
        try:
            entry = file.foreign_entry(name)
            graph.register(entry.name, entry.source, **entry.options)
        except OmnigraphError as error:
            _warn(f"the foreign table `{name}` is left out: {error.message}", error.hint)
