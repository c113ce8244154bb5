"""The declaration of a pipeline, `pipeline.yaml`: sources, mappings of their rows to nodes and edges, rejects and tests."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql.arguments import checked, path
from omnigraph_sql.choices import LoadMode
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.sqltext.row_mapping import SYSTEM, Keep, RowMapping, check_expression, check_type, columns_read
from omnigraph_sql.writes.load.loads import MODES
from omnigraph_sql.writes.load.rejects import checked_limit
from omnigraph_sql.yaml_files import YamlChecker, read_yaml

FILE_FORMATS: Final = ("jsonl", "csv", "parquet")
TEXT_FORMATS: Final = ("jsonl", "csv")
"""Formats whose values are texts."""
POSTGRES: Final = "postgres"
JDBC: Final = "jdbc"
"""Any database that Spark has a driver for."""
_JDBC_OPTIONS: Final = {"uri": ("url",), "table": ("dbtable", "query")}
"""The options of Spark that may replace each key."""
_TOP = ("graph", "branch", "base", "mode", "message", "key", "sources", "nodes", "edges", "rejects", "tests")
_SOURCE = ("format", "path", "uri", "table", "options", "columns")
_NODE = ("type", "from", "columns", "where", "dedupe")
_EDGE = (*_NODE, "src", "dst")
_DEDUPE = ("by", "order", "keep")
_FORMAT = re.compile(r"[A-Za-z][\w.\-]*", re.ASCII)

Kind = Literal["node", "edge"]


@dataclass(frozen=True, kw_only=True)
class PipelineSource:
    """A source of rows: files, a table of a database, or a format of Spark."""

    name: str
    format: str
    """`jsonl`, `csv`, `parquet`, `postgres`, or a format of Spark."""
    paths: tuple[str, ...] = ()
    """Files and patterns, absolute or with a scheme."""
    uri: str | None = field(default=None, repr=False)
    """The address of a database. It may hold a password, so `repr` omits it."""
    table: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    """Types of columns in SQL."""

    @property
    def is_text(self) -> bool:
        """True if its values are texts."""
        return self.format in TEXT_FORMATS

    @property
    def is_local(self) -> bool:
        """True if it can be read without Spark."""
        return self.format in (*FILE_FORMATS, POSTGRES)


@dataclass(frozen=True)
class PipelineTarget:
    """A type and the mapping that fills it from a source."""

    place: str
    """Its place in the file: `nodes[0]`."""
    kind: Kind
    type: str
    source: str
    mapping: RowMapping

    @property
    def table_key(self) -> str:
        return f"{self.kind}:{self.type}"


@dataclass(frozen=True)
class RejectRule:
    """The report of rows that break a rule, and their limit."""

    to: Path | None
    limit: int | str
    """The number of rows that may be rejected, or their share as `0.5%`."""


@dataclass(frozen=True)
class DataTest:
    """A query that must return no rows."""

    name: str
    sql: str


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A declared pipeline.

    Example:
        >>> declared = og.pipeline.load_pipeline("pipeline.yaml")
        >>> [(target.type, target.source) for target in declared.targets]
        [('Port', 'ports')]
    """

    path: Path
    """The file, absolute."""
    graph: str
    """The address of the graph."""
    branch: str
    """The branch that gets the rows."""
    base: str | None
    """The branch that a missing one starts from; None if the branch must exist."""
    mode: LoadMode
    """The mode of the load."""
    message: str | None
    """A note for the history."""
    key: str | None
    """The idempotency key, if the file sets one."""
    sources: Mapping[str, PipelineSource]
    """Sources by name."""
    targets: tuple[PipelineTarget, ...]
    """Nodes, then edges, each in the order of the file."""
    rejects: RejectRule | None
    """The treatment of rows that break a rule; None if the first of them fails the run."""
    tests: tuple[DataTest, ...]
    """Tests of the data before it is published."""
    document: Mapping[str, Any] = field(repr=False, compare=False)
    """The content of the file, with environment variables substituted."""


@checked(path=path)
def load_pipeline(path: str | Path) -> Pipeline:
    """Read the pipeline of a file.

    Args:
        path: the file.

    Returns:
        The pipeline.

    Raises:
        Configuration: the file is not valid; the message names the place.
        NotFound: there is no such file.

    Example:
        >>> og.pipeline.load_pipeline("pipeline.yaml").mode
        'merge'
    """
    file = Path(os.path.abspath(os.path.expanduser(path)))
    return _Reader(file).pipeline(read_yaml(file))


def check_types(pipeline: Pipeline, catalog: Catalog) -> None:
    """Raise if a target names an unknown type or property, or does not map a required property."""
    checker = _Reader(pipeline.path)
    for target in pipeline.targets:
        types: Mapping[str, NodeType | EdgeType] = catalog.nodes if target.kind == "node" else catalog.edges
        type_ = types.get(target.type)
        if type_ is None:
            hint = did_you_mean(target.type, types) or f"the graph has {listing(types) or 'none'}"
            checker.refuse(f"{target.place}.type", f"is no {target.kind} type of the graph: {target.type}", hint)
        system_columns = ("id", "src", "dst") if target.kind == "edge" else ("id",)
        for name in target.mapping.columns:
            if name not in system_columns and name not in type_.properties:
                hint = did_you_mean(name, (*type_.properties, "id")) or f"{target.type} has {listing(type_.properties)}"
                checker.refuse(f"{target.place}.columns.{name}", f"is no property of {target.type}", hint)
        for name in _unmapped(type_, target.mapping.columns):
            hint = f"write {name}: EXPRESSION, or give the property a default"
            checker.refuse(f"{target.place}.columns", f"lacks `{name}`, without which there is no {target.type}", hint)


def _unmapped(type_: NodeType | EdgeType, columns: Mapping[str, str]) -> list[str]:
    """Return the required properties that no column fills. A vector with `@embed` is computed, so it is not required."""
    return [
        name
        for name, prop in type_.properties.items()
        if name not in columns and not prop.type.nullable and prop.default is None and prop.embed is None
    ]


class _Reader(YamlChecker):
    """Checks a file key by key."""

    def pipeline(self, parsed: Any) -> Pipeline:
        document = self.filled("", self.mapping({} if parsed is None else parsed, "", _TOP))
        sources = self._sources(document.get("sources"))
        mode = self._text(document, "mode", "", "append")
        if mode not in MODES:
            self.refuse("mode", f"is not a load mode: {mode}", did_you_mean(mode, MODES) or f"use {listing(MODES)}")
        return Pipeline(
            path=self.path,
            graph=self._address(self._required(document, "graph", "")),
            branch=self._text(document, "branch", "", "main"),
            base=self._text(document, "base", "", None),
            mode=next(load_mode for load_mode in MODES if load_mode == mode),
            message=self._text(document, "message", "", None),
            key=self._text(document, "key", "", None),
            sources=sources,
            targets=self._targets(document, sources),
            rejects=self._rejects(document.get("rejects")),
            tests=self._tests(document.get("tests")),
            document=document,
        )

    def _sources(self, value: Any) -> dict[str, PipelineSource]:
        entries = self.mapping(value if value is not None else {}, "sources", None)
        if not entries:
            self.refuse("sources", "is missing or empty", "name at least one source, with its format and path")
        return {name: self._source(name, entry) for name, entry in entries.items()}

    def _source(self, name: str, value: Any) -> PipelineSource:
        key = f"sources.{name}"
        entry = self.mapping(value, key, _SOURCE)
        form = self._required(entry, "format", key)
        if not _FORMAT.fullmatch(form):
            self.refuse(
                f"{key}.format", f"is not a format: {form}", f"use {listing((*FILE_FORMATS, POSTGRES))} or one of Spark"
            )
        uri, table = self._text(entry, "uri", key, None), self._text(entry, "table", key, None)
        paths = self._paths(entry.get("path"), f"{key}.path")
        options = self.mapping(entry.get("options") or {}, f"{key}.options", None)
        if form in (POSTGRES, JDBC):
            for field_name in ("uri", "table"):
                if form == POSTGRES or not any(option in options for option in _JDBC_OPTIONS[field_name]):
                    self._required(entry, field_name, key)
            if paths:
                self.refuse(f"{key}.path", f"is not for {form}", "give uri and table")
        elif uri is not None or table is not None:
            which = "uri" if uri is not None else "table"
            self.refuse(f"{key}.{which}", f"is not for {form}", "give a path, or options")
        elif form in FILE_FORMATS and not paths:
            self.refuse(f"{key}.path", "is missing", "give a path, a pattern, or a list of them")
        if entry.get("columns") and form not in TEXT_FORMATS:
            self.refuse(f"{key}.columns", f"is not for {form}, whose values have types", "cast them in the expressions")
        return PipelineSource(
            name=name,
            format=form,
            paths=paths,
            uri=uri,
            table=table,
            options=options,
            columns=self._declared_types(entry.get("columns"), f"{key}.columns"),
        )

    def _declared_types(self, value: Any, key: str) -> dict[str, str]:
        entries = self.mapping(value if value is not None else {}, key, None)
        types = {}
        for name, kind in entries.items():
            if name in SYSTEM:
                self.refuse(f"{key}.{name}", "is reserved", "rename the column in the source")
            if not isinstance(kind, str):
                self.refuse(f"{key}.{name}", "is not a text", "write a type of SQL, as BIGINT or DATE")
            with _RefusedAt(self, f"{key}.{name}"):
                types[name] = check_type(kind)
        return types

    def _targets(self, document: Mapping[str, Any], sources: Mapping[str, PipelineSource]) -> tuple[PipelineTarget, ...]:
        targets: list[PipelineTarget] = []
        sections: tuple[tuple[str, Kind], ...] = (("nodes", "node"), ("edges", "edge"))
        for section, kind in sections:
            entries = document.get(section)
            if not isinstance(entries, list | None):
                self.refuse(section, "is not a list", "write a list of targets, each with type, from and columns")
            for at, entry in enumerate(entries or ()):
                targets.append(self._target(f"{section}[{at}]", kind, entry, sources, targets))
        if not targets:
            self.refuse("nodes", "is missing, and so is `edges`", "name at least one type that gets rows")
        return tuple(targets)

    def _target(
        self, place: str, kind: Kind, value: Any, sources: Mapping[str, PipelineSource], before: Sequence[PipelineTarget]
    ) -> PipelineTarget:
        entry = self.mapping(value, place, _EDGE if kind == "edge" else _NODE)
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
        is_first_of_source = all(target.source != name for target in before)
        mapping = RowMapping(columns, frozenset({"id", "src", "dst"} & columns.keys()), where, keep, is_first_of_source)
        self._check_columns(place, mapping, sources[name])
        return PipelineTarget(place, kind, type_, name, mapping)

    def _check_columns(self, place: str, mapping: RowMapping, source: PipelineSource) -> None:
        """Refuse ambiguous, reserved and undeclared columns. Lines of JSON have no header, so declared columns are all."""
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

    def _columns(self, value: Any, key: str) -> dict[str, str]:
        if isinstance(value, list):
            value = {name if isinstance(name, str) else str(name): None for name in value}
        entries = self.mapping({} if value is None else value, key, None)
        columns = {}
        for name, expression in entries.items():
            text = f'"{name}"' if expression is None else expression
            if isinstance(text, bool | int | float):
                text = str(text)
            columns[name] = self._expression(text, f"{key}.{name}")
        return columns

    def _expression(self, text: Any, key: str) -> str:
        if not isinstance(text, str):
            self.refuse(key, "is not a text", "write an expression of SQL, in quotes if YAML takes it for something else")
        with _RefusedAt(self, key):
            check_expression(text)
        return text

    def _dedupe(self, value: Any, key: str, columns: Mapping[str, str]) -> Keep | None:
        if value is None:
            return None
        entry = self.mapping(value, key, _DEDUPE)
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

    def _rejects(self, value: Any) -> RejectRule | None:
        if value is None:
            return None
        entry = self.mapping(value, "rejects", ("to", "max"))
        to, limit = self._text(entry, "to", "rejects", None), entry.get("max", 0)
        if isinstance(limit, bool) or not isinstance(limit, int | str):
            self.refuse("rejects.max", f"is neither a number of rows nor a share: {limit}", "write 100 or 0.5%")
        try:
            checked_limit(limit)
        except BadRequest as error:
            self.refuse("rejects.max", f"is neither a number of rows nor a share: {limit}", error.hint)
        if to is not None and Path(to).suffix not in (".jsonl", ".parquet"):
            self.refuse("rejects.to", f"is neither .jsonl nor .parquet: {to}", "the suffix decides how rejects are written")
        if to is not None and "://" in to:
            hint = "name a file of this machine, and copy it to the object store"
            self.refuse("rejects.to", f"is an address, and rejects go to files of this machine: {to}", hint)
        return RejectRule(None if to is None else self.path.parent / os.path.expanduser(to), limit)

    def _tests(self, value: Any) -> tuple[DataTest, ...]:
        if not isinstance(value, list | None):
            self.refuse("tests", "is not a list", "write a list of tests, each with name and sql")
        tests: list[DataTest] = []
        for at, item in enumerate(value or ()):
            key = f"tests[{at}]"
            entry = self.mapping(item, key, ("name", "sql"))
            test = DataTest(self._required(entry, "name", key), self._required(entry, "sql", key))
            if any(test.name == other.name for other in tests):
                self.refuse(f"{key}.name", f"is given twice: {test.name}", "give each test a name of its own")
            tests.append(test)
        return tuple(tests)

    def _paths(self, value: Any, key: str) -> tuple[str, ...]:
        entries = [] if value is None else value if isinstance(value, list) else [value]
        for at, entry in enumerate(entries):
            if not isinstance(entry, str) or not entry:
                self.refuse(f"{key}[{at}]" if isinstance(value, list) else key, "is not a text", "write a path or a pattern")
        return tuple(self._address(entry) for entry in entries)

    def _address(self, text: str) -> str:
        """Resolve a relative path from the directory of the file; keep addresses."""
        return text if "://" in text else str(self.path.parent / os.path.expanduser(text))

    def _required(self, entry: Mapping[str, Any], name: str, key: str) -> str:
        text: str | None = self._text(entry, name, key, None)
        if text is None:
            self.refuse(f"{key}.{name}" if key else name, "is missing", f"write {name}: …")
        return text

    def _text(self, entry: Mapping[str, Any], name: str, key: str, default: Any) -> Any:
        value = entry.get(name)
        if value is None:
            return default
        if not isinstance(value, str) or not value:
            self.refuse(f"{key}.{name}" if key else name, "is not a text", "write a text, in quotes if needed")
        return value


@dataclass(frozen=True)
class _RefusedAt:
    """Names a key of the file in errors that are raised inside."""

    reader: _Reader
    key: str

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, BadRequest):
            self.reader.refuse(self.key, f"cannot be used: {error.message}", error.hint)
