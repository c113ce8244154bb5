"""What a `pipeline.yaml` says: sources, how their rows become nodes and edges, and what is done with the outcome."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.planner.mapping import SYSTEM, Keep, RowMapping, check_expression, check_type, columns_read
from omnigraph_sql.project import YamlChecker, read_yaml
from omnigraph_sql.writes.load import MODES, LoadMode
from omnigraph_sql.writes.rejects import checked_limit

FILE_FORMATS: Final = ("jsonl", "csv", "parquet")
TEXT_FORMATS: Final = ("jsonl", "csv")
"""Formats whose values are written as texts."""
POSTGRES: Final = "postgres"
JDBC: Final = "jdbc"
"""Any database that Spark has a driver for."""
_JDBC_OPTIONS: Final = {"uri": ("url",), "table": ("dbtable", "query")}
"""What else may say it."""
_TOP = ("graph", "branch", "base", "mode", "message", "key", "sources", "nodes", "edges", "rejects", "tests")
_SOURCE = ("format", "path", "uri", "table", "options", "columns")
_NODE = ("type", "from", "columns", "where", "dedupe")
_EDGE = (*_NODE, "src", "dst")
_DEDUPE = ("by", "order", "keep")
_FORMAT = re.compile(r"[A-Za-z][\w.\-]*", re.ASCII)

Kind = Literal["node", "edge"]


@dataclass(frozen=True)
class Source:
    """Rows that come from elsewhere."""

    name: str
    format: str
    """`jsonl`, `csv`, `parquet`, `postgres`, or a format of Spark."""
    paths: tuple[str, ...] = ()
    """Files and patterns, absolute or with a scheme."""
    uri: str | None = field(default=None, repr=False)
    """The address of a database. May hold a password, so it is not shown."""
    table: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    """Types of columns in SQL."""

    @property
    def is_text(self) -> bool:
        """Whether its values are written as texts."""
        return self.format in TEXT_FORMATS

    @property
    def is_local(self) -> bool:
        """Whether it can be read without Spark."""
        return self.format in (*FILE_FORMATS, POSTGRES)


@dataclass(frozen=True)
class Target:
    """A type that gets rows of a source."""

    place: str
    """Where the file says so: `nodes[0]`."""
    kind: Kind
    type: str
    source: str
    mapping: RowMapping

    @property
    def table_key(self) -> str:
        return f"{self.kind}:{self.type}"


@dataclass(frozen=True)
class RejectRule:
    """What becomes of rows that break a rule."""

    to: Path | None
    limit: int | str
    """How many may be left out: a number, or a share as `0.5%`."""


@dataclass(frozen=True)
class DataTest:
    """A query that must return no rows."""

    name: str
    sql: str


@dataclass(frozen=True)
class Pipeline:
    """What a file says."""

    path: Path
    graph: str
    branch: str
    base: str | None
    mode: LoadMode
    message: str | None
    key: str | None
    sources: Mapping[str, Source]
    targets: tuple[Target, ...]
    """Nodes, then edges, each in the order of the file."""
    rejects: RejectRule | None
    tests: tuple[DataTest, ...]
    document: Mapping[str, Any] = field(repr=False, compare=False)
    """The file as it was read, with the variables of the environment in it."""


def load_pipeline(path: str | Path) -> Pipeline:
    """The pipeline of a file. Raises `NotFound` or `Configuration`, which name the place in the file."""
    found = Path(path).expanduser().absolute()
    return _Reader(found).pipeline(read_yaml(found))


def check_types(pipeline: Pipeline, catalog: Catalog) -> None:
    """Raise if a target names a type or property that the graph does not have, or lacks one that it needs."""
    checker = _Reader(pipeline.path)
    for target in pipeline.targets:
        types: Mapping[str, NodeType | EdgeType] = catalog.nodes if target.kind == "node" else catalog.edges
        type_ = types.get(target.type)
        if type_ is None:
            hint = did_you_mean(target.type, types) or f"the graph has {listing(types) or 'none'}"
            checker.refuse(f"{target.place}.type", f"is no {target.kind} type of the graph: {target.type}", hint)
        own = ("id", "src", "dst") if target.kind == "edge" else ("id",)
        for name in target.mapping.columns:
            if name not in own and name not in type_.properties:
                hint = did_you_mean(name, (*type_.properties, "id")) or f"{target.type} has {listing(type_.properties)}"
                checker.refuse(f"{target.place}.columns.{name}", f"is no property of {target.type}", hint)
        for name in _lacking(type_, target.mapping.columns):
            hint = f"write {name}: EXPRESSION, or give the property a default"
            checker.refuse(f"{target.place}.columns", f"lacks `{name}`, without which there is no {target.type}", hint)


def _lacking(type_: NodeType | EdgeType, columns: Mapping[str, str]) -> list[str]:
    """Properties that every row must have, and that nothing fills. Vectors may be computed from a text."""
    return [
        name
        for name, each in type_.properties.items()
        if name not in columns and not each.type.nullable and each.default is None and each.embed is None
    ]


class _Reader(YamlChecker):
    """Checks a file key by key."""

    def pipeline(self, parsed: Any) -> Pipeline:
        given = self.filled("", self.mapping({} if parsed is None else parsed, "", _TOP))
        sources = self._sources(given.get("sources"))
        mode = self._text(given, "mode", "", "append")
        if mode not in MODES:
            self.refuse("mode", f"is not a load mode: {mode}", did_you_mean(mode, MODES) or f"use {listing(MODES)}")
        return Pipeline(
            self.path,
            self._address(self._required(given, "graph", "")),
            self._text(given, "branch", "", "main"),
            self._text(given, "base", "", None),
            next(each for each in MODES if each == mode),
            self._text(given, "message", "", None),
            self._text(given, "key", "", None),
            sources,
            self._targets(given, sources),
            self._rejects(given.get("rejects")),
            self._tests(given.get("tests")),
            given,
        )

    def _sources(self, given: Any) -> dict[str, Source]:
        entries = self.mapping(given if given is not None else {}, "sources", None)
        if not entries:
            self.refuse("sources", "is missing or empty", "name at least one source, with its format and path")
        return {name: self._source(name, entry) for name, entry in entries.items()}

    def _source(self, name: str, given: Any) -> Source:
        key = f"sources.{name}"
        entry = self.mapping(given, key, _SOURCE)
        form = self._required(entry, "format", key)
        if not _FORMAT.fullmatch(form):
            self.refuse(
                f"{key}.format", f"is not a format: {form}", f"use {listing((*FILE_FORMATS, POSTGRES))} or one of Spark"
            )
        uri, table = self._text(entry, "uri", key, None), self._text(entry, "table", key, None)
        paths = self._paths(entry.get("path"), f"{key}.path")
        options = self.mapping(entry.get("options") or {}, f"{key}.options", None)
        if form in (POSTGRES, JDBC):
            for each in ("uri", "table"):
                if form == POSTGRES or not any(name in options for name in _JDBC_OPTIONS[each]):
                    self._required(entry, each, key)
            if paths:
                self.refuse(f"{key}.path", f"is not for {form}", "give uri and table")
        elif uri is not None or table is not None:
            which = "uri" if uri is not None else "table"
            self.refuse(f"{key}.{which}", f"is not for {form}", "give a path, or options")
        elif form in FILE_FORMATS and not paths:
            self.refuse(f"{key}.path", "is missing", "give a path, a pattern, or a list of them")
        if entry.get("columns") and form not in TEXT_FORMATS:
            self.refuse(f"{key}.columns", f"is not for {form}, whose values have types", "cast them in the expressions")
        return Source(name, form, paths, uri, table, options, self._declared(entry.get("columns"), f"{key}.columns"))

    def _declared(self, given: Any, key: str) -> dict[str, str]:
        entries = self.mapping(given if given is not None else {}, key, None)
        found = {}
        for name, kind in entries.items():
            if name in SYSTEM:
                self.refuse(f"{key}.{name}", "is reserved", "rename the column in the source")
            if not isinstance(kind, str):
                self.refuse(f"{key}.{name}", "is not a text", "write a type of SQL, as BIGINT or DATE")
            with self._placed(f"{key}.{name}"):
                found[name] = check_type(kind)
        return found

    def _targets(self, given: Mapping[str, Any], sources: Mapping[str, Source]) -> tuple[Target, ...]:
        found: list[Target] = []
        sections: tuple[tuple[str, Kind], ...] = (("nodes", "node"), ("edges", "edge"))
        for section, kind in sections:
            entries = given.get(section)
            if not isinstance(entries, list | None):
                self.refuse(section, "is not a list", "write a list of targets, each with type, from and columns")
            for at, entry in enumerate(entries or ()):
                found.append(self._target(f"{section}[{at}]", kind, entry, sources, found))
        if not found:
            self.refuse("nodes", "is missing, and so is `edges`", "name at least one type that gets rows")
        return tuple(found)

    def _target(self, place: str, kind: Kind, given: Any, sources: Mapping[str, Source], before: Sequence[Target]) -> Target:
        entry = self.mapping(given, place, _EDGE if kind == "edge" else _NODE)
        type_, name = self._required(entry, "type", place), self._required(entry, "from", place)
        if name not in sources:
            hint = did_you_mean(name, sources) or f"there are {listing(sources)}"
            self.refuse(f"{place}.from", f"names no source: {name}", hint)
        columns = self._columns(entry.get("columns"), f"{place}.columns")
        for end in ("src", "dst") if kind == "edge" else ():
            if end in columns:
                self.refuse(f"{place}.columns.{end}", "is in the wrong place", f"write {end} beside columns")
            columns[end] = self._expression(self._required(entry, end, place), f"{place}.{end}")
        if not columns:
            self.refuse(f"{place}.columns", "is missing or empty", "write PROPERTY: EXPRESSION for each property")
        where = self._text(entry, "where", place, None)
        if where is not None:
            self._expression(where, f"{place}.where")
        keep = self._dedupe(entry.get("dedupe"), f"{place}.dedupe", columns)
        tells = all(each.source != name for each in before)
        mapping = RowMapping(columns, frozenset({"id", "src", "dst"} & columns.keys()), where, keep, tells)
        self._check_columns(place, mapping, sources[name])
        return Target(place, kind, type_, name, mapping)

    def _check_columns(self, place: str, mapping: RowMapping, source: Source) -> None:
        """Lines of JSON have no header: there the declared columns, if there are any, are all that may be read."""
        read = columns_read(mapping)
        for name in read:
            if source.format == "jsonl" and any(name != other and name.lower() == other.lower() for other in read):
                self.refuse(
                    place, f"writes the column `{name}` in several ways", "case matters in JSON; write it in one way"
                )
            if name in SYSTEM:
                self.refuse(place, f"reads the column `{name}`, whose name is reserved", "rename it in the source")
            if source.format == "jsonl" and source.columns and name not in source.columns:
                hint = did_you_mean(name, source.columns) or f"declare it in sources.{source.name}.columns"
                self.refuse(place, f"reads the column `{name}`, which the source `{source.name}` does not declare", hint)

    def _columns(self, given: Any, key: str) -> dict[str, str]:
        if isinstance(given, list):
            given = {each if isinstance(each, str) else str(each): None for each in given}
        entries = self.mapping({} if given is None else given, key, None)
        found = {}
        for name, expression in entries.items():
            text = f'"{name}"' if expression is None else expression
            if isinstance(text, bool | int | float):
                text = str(text)
            found[name] = self._expression(text, f"{key}.{name}")
        return found

    def _expression(self, text: Any, key: str) -> str:
        if not isinstance(text, str):
            self.refuse(key, "is not a text", "write an expression of SQL, in quotes if YAML takes it for something else")
        with self._placed(key):
            check_expression(text)
        return text

    def _dedupe(self, given: Any, key: str, columns: Mapping[str, str]) -> Keep | None:
        if given is None:
            return None
        entry = self.mapping(given, key, _DEDUPE)
        by = entry.get("by")
        by = [by] if isinstance(by, str) else by
        if not isinstance(by, list) or not by:
            self.refuse(f"{key}.by", "is missing or not a list", "list the columns of the target that must differ")
        for name in by:
            if name not in columns:
                hint = did_you_mean(str(name), columns) or f"there are {listing(columns)}"
                self.refuse(f"{key}.by", f"names no column of the target: {name}", hint)
        order = self._text(entry, "order", key, None)
        if order is not None:
            self._expression(order, f"{key}.order")
        keep = self._text(entry, "keep", key, "last")
        if keep not in ("first", "last"):
            self.refuse(f"{key}.keep", f"is neither first nor last: {keep}", "write first or last")
        return Keep(tuple(by), order, keep == "last")

    def _rejects(self, given: Any) -> RejectRule | None:
        if given is None:
            return None
        entry = self.mapping(given, "rejects", ("to", "max"))
        to, limit = self._text(entry, "to", "rejects", None), entry.get("max", 0)
        if isinstance(limit, bool) or not isinstance(limit, int | str):
            self.refuse("rejects.max", f"is neither a number of rows nor a share: {limit}", "write 100 or 0.5%")
        try:
            checked_limit(limit)
        except BadRequest as error:
            self.refuse("rejects.max", f"is neither a number of rows nor a share: {limit}", error.hint)
        if to is not None and Path(to).suffix not in (".jsonl", ".parquet"):
            self.refuse("rejects.to", f"is neither .jsonl nor .parquet: {to}", "the suffix decides how rejects are written")
        return RejectRule(None if to is None else self.path.parent / Path(to).expanduser(), limit)

    def _tests(self, given: Any) -> tuple[DataTest, ...]:
        if not isinstance(given, list | None):
            self.refuse("tests", "is not a list", "write a list of tests, each with name and sql")
        found: list[DataTest] = []
        for at, each in enumerate(given or ()):
            key = f"tests[{at}]"
            entry = self.mapping(each, key, ("name", "sql"))
            test = DataTest(self._required(entry, "name", key), self._required(entry, "sql", key))
            if any(test.name == other.name for other in found):
                self.refuse(f"{key}.name", f"is given twice: {test.name}", "give each test a name of its own")
            found.append(test)
        return tuple(found)

    def _paths(self, given: Any, key: str) -> tuple[str, ...]:
        entries = [] if given is None else given if isinstance(given, list) else [given]
        for at, each in enumerate(entries):
            if not isinstance(each, str) or not each:
                self.refuse(f"{key}[{at}]" if isinstance(given, list) else key, "is not a text", "write a path or a pattern")
        return tuple(self._address(each) for each in entries)

    def _address(self, text: str) -> str:
        """A path that begins beside the file, unless it is absolute or an address."""
        return text if "://" in text else str(self.path.parent / Path(text).expanduser())

    def _required(self, entry: Mapping[str, Any], name: str, key: str) -> str:
        found: str | None = self._text(entry, name, key, None)
        if found is None:
            self.refuse(f"{key}.{name}" if key else name, "is missing", f"write {name}: …")
        return found

    def _text(self, entry: Mapping[str, Any], name: str, key: str, default: Any) -> Any:
        found = entry.get(name)
        if found is None:
            return default
        if not isinstance(found, str) or not found:
            self.refuse(f"{key}.{name}" if key else name, "is not a text", "write a text, in quotes if needed")
        return found

    def _placed(self, key: str) -> _Placed:
        return _Placed(self, key)


@dataclass(frozen=True)
class _Placed:
    """What is refused inside is wrong with a key of the file."""

    reader: _Reader
    key: str

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, BadRequest):
            self.reader.refuse(self.key, f"cannot be used: {error.message}", error.hint)
