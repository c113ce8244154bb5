"""What a run of a pipeline would do: the files it reads, the SQL of each target, the key of the run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql.engines.choosing import require_duckdb
from omnigraph_sql.engines.ingest.files import LINE, Files, Tally, check_options, header, raw_batches
from omnigraph_sql.engines.ingest.tables import DatabaseTable, open_table
from omnigraph_sql.errors import BadRequest, Configuration, NotFound, OmnigraphError, ValidationFailed
from omnigraph_sql.graph import Graph, connect
from omnigraph_sql.pipeline.spec import FILE_FORMATS, POSTGRES, Pipeline, Source, Target, check_types, load_pipeline
from omnigraph_sql.planner.mapping import MappingDialect, columns_read, json_columns_sql, mapped_sql
from omnigraph_sql.writes.load import LoadMode
from omnigraph_sql.writes.reading import Placed, check_table

ENGINES: Mapping[str, MappingDialect] = {"spark": "spark", "local": "duckdb"}
"""The engines that run pipelines, and the dialect of each."""


_LOADED = ("mode", "sources", "nodes", "edges")
"""What of a file decides which rows are loaded."""


@dataclass(frozen=True)
class PlannedSource:
    """A source and what of it is read."""

    source: Source
    files: tuple[str, ...]
    """In the order in which they are read; empty for a source that is not made of files that can be seen from here."""
    bytes: int
    columns: tuple[str, ...] | None
    """All columns it has; None where only the data tells."""
    table: DatabaseTable | None = None
    """Of a database."""

    @property
    def is_seen(self) -> bool:
        """Whether its columns can be told from here, and not only by Spark."""
        return bool(self.files) or self.table is not None

    @property
    def declared(self) -> Mapping[str, str]:
        """Types of columns that are written as texts."""
        return self.source.columns if self.source.is_text else {}

    def raw_batches(self, columns: Sequence[str], first: int, step: int, tally: Tally) -> pa.RecordBatchReader:
        """Its rows with some columns, read when they are asked for."""
        if self.table is not None:
            return self.table.raw_batches(columns, first, step, tally)
        return raw_batches(Files(self.source.format, self.files, self.source.options), columns, first, step, tally)

    def prepare(self, columns: Sequence[str]) -> Callable[[str], str] | None:
        """What DuckDB makes of these rows first: columns, of lines."""
        return partial(json_columns_sql, columns, LINE) if self.source.format == "jsonl" else None

    def to_dict(self) -> dict[str, Any]:
        source = self.source
        read = {"files": list(self.files), "bytes": self.bytes} if self.files else {}
        table = {} if source.table is None else {"table": source.table}
        return {"name": source.name, "format": source.format, **table, **read}


@dataclass(frozen=True)
class PlannedTarget:
    """A target, the columns of its source that it reads, and its statement over them."""

    target: Target
    columns: tuple[str, ...]
    sql: str
    """In the dialect of the engine, over the relation `omnigraph_sql.planner.mapping.RAW_ROWS`."""

    def to_dict(self) -> dict[str, Any]:
        target = self.target
        return {
            "table_key": target.table_key,
            "source": target.source,
            "columns": list(target.mapping.columns),
            "reads": list(self.columns),
            "sql": self.sql,
        }


@dataclass(frozen=True)
class Plan:
    """What a run would do, in the order in which it would."""

    pipeline: Pipeline
    engine: str
    branch: str
    key: str | None
    """None when nothing tells two runs apart: then every run loads its data."""
    sources: Mapping[str, PlannedSource]
    targets: tuple[PlannedTarget, ...]
    inputs: str | None = None
    """The same as long as what is loaded is the same; None if an input is not made of files, so that nothing tells."""

    @property
    def dialect(self) -> MappingDialect:
        return ENGINES[self.engine]

    @property
    def mode(self) -> LoadMode:
        return self.pipeline.mode

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Sources that only Spark can look at: what their targets make of them is not known before a run."""
        return tuple(name for name, each in self.sources.items() if not each.is_seen)

    def to_dict(self) -> dict[str, Any]:
        pipeline = self.pipeline
        rejects = pipeline.rejects
        return {
            "pipeline": str(pipeline.path),
            "graph": pipeline.graph,
            "branch": self.branch,
            "base": pipeline.base,
            "mode": pipeline.mode,
            "engine": self.engine,
            "key": self.key,
            "sources": [each.to_dict() for each in self.sources.values()],
            "targets": [each.to_dict() for each in self.targets],
            "rejects": None
            if rejects is None
            else {"to": None if rejects.to is None else str(rejects.to), "max": rejects.limit},
            "tests": [each.name for each in pipeline.tests],
        }

    def to_text(self) -> str:
        """For people."""
        pipeline = self.pipeline
        lines = [f"{pipeline.mode} into {pipeline.graph}, branch {self.branch}, with the engine {self.engine}"]
        if pipeline.base is not None:
            lines.append(f"a missing branch is created from {pipeline.base}")
        lines.append(f"key {self.key}" if self.key is not None else "no key: every run loads its data")
        for source in self.sources.values():
            noun = "file" if len(source.files) == 1 else "files"
            size = f", {len(source.files)} {noun}, {source.bytes} bytes" if source.files else ""
            lines.append(f"source {source.source.name}: {source.source.format}{size}")
            lines += [f"  {path}" for path in source.files]
        for number, each in enumerate(self.targets, 1):
            lines += [f"{number}. {each.target.table_key} from {each.target.source}"]
            lines += [f"   {line}" for line in each.sql.splitlines()]
        if pipeline.rejects is not None:
            lines.append(f"at most {pipeline.rejects.limit} rejected, reported in {pipeline.rejects.to or 'no file'}")
        lines += [f"test {each.name}" for each in pipeline.tests]
        return "\n".join(lines) + "\n"


def make_plan(
    pipeline: Pipeline | str | Path, *, engine: str = "spark", branch: str | None = None, key: str | None = None
) -> Plan:
    """What a run would do. Looks at the files and their headers; reads no rows, and needs no graph."""
    given = pipeline if isinstance(pipeline, Pipeline) else load_pipeline(pipeline)
    if engine not in ENGINES:
        hint = did_you_mean(engine, ENGINES) or f"there are {listing(ENGINES)}"
        raise BadRequest(f"there is no engine `{engine}` for pipelines", hint=hint)
    sources = {name: _source(given, source, engine) for name, source in given.sources.items()}
    targets = tuple(_target(given, target, sources[target.source], ENGINES[engine]) for target in given.targets)
    name = given.branch if branch is None else branch
    inputs = _inputs(given, sources.values())
    derived = None if inputs is None else f"pipeline-{inputs}"
    return Plan(given, engine, name, key or given.key or derived, sources, targets, inputs)


def validate(
    pipeline: Pipeline | str | Path, *, engine: str = "spark", branch: str | None = None, key: str | None = None
) -> Plan:
    """Check everything that can be checked without reading rows: also the graph, its types, and what expressions give."""
    plan = make_plan(pipeline, engine=engine, branch=branch, key=key)
    with connect(plan.pipeline.graph, read_only=True) as graph:
        check_graph(plan, graph)
    return plan


def _check_values(plan: Plan, graph: Graph) -> None:
    """Raise if an expression cannot be understood, or gives what its property cannot take.

    Expressions are DuckDB's SQL whatever runs them, so DuckDB tells; it can, where the columns of the source are known.
    """
    require_duckdb()
    from omnigraph_sql.engines.ingest.duckdb import mapped_schema

    for each in plan.targets:
        source = plan.sources[each.target.source]
        if not source.is_seen:
            continue
        raw = source.raw_batches(each.columns, 0, 1, Tally()).schema
        sql = mapped_sql(each.target.mapping, each.columns, source.declared, "duckdb")
        try:
            found = mapped_schema(sql, raw, source.prepare(each.columns))
            rows = Placed(found.empty_table().to_reader(), source.source.is_text)
            # Tasks of Spark compute no vectors.
            check_table(each.target.table_key, rows, graph.catalog, computes=plan.engine == "local")
        except (BadRequest, ValidationFailed) as error:
            place = f"{plan.pipeline.path}: `{each.target.place}`"
            raise Configuration(f"{place}: {error.message}", what=each.target.place, hint=error.hint) from None


def check_graph(plan: Plan, graph: Graph) -> None:
    """Raise if the graph does not have what a plan needs, or cannot take what it gives. No rows of sources are read."""
    pipeline = plan.pipeline
    check_types(pipeline, graph.catalog)
    branches = graph.branches()
    if plan.branch not in branches and pipeline.base is None:
        hint = did_you_mean(plan.branch, branches) or "create it, or name the branch it starts from: `base: main`"
        raise NotFound(f"there is no branch `{plan.branch}`", what="branch", name=plan.branch, hint=hint)
    if plan.branch not in branches and pipeline.base not in branches:
        base = str(pipeline.base)
        raise NotFound(
            f"{pipeline.path}: `base` names no branch: {base}", what="branch", name=base, hint=did_you_mean(base, branches)
        )
    _check_tests(plan, graph, plan.branch if plan.branch in branches else str(pipeline.base))
    _check_values(plan, graph)


def _check_tests(plan: Plan, graph: Graph, branch: str) -> None:
    """Raise if a test cannot be understood: the names in it will mean the same once the load is staged."""
    for place, test in enumerate(plan.pipeline.tests):
        try:
            graph.sql(f"EXPLAIN {test.sql}", branch=branch).to_arrow()
        except OmnigraphError as error:
            what = f"tests[{place}].sql"
            raise Configuration(f"{plan.pipeline.path}: `{what}`: {error.message}", what=what, hint=error.hint) from None


def _source(pipeline: Pipeline, source: Source, engine: str) -> PlannedSource:
    place = f"{pipeline.path}: `sources.{source.name}`"
    if engine == "local" and not source.is_local:
        hint = did_you_mean(source.format, (*FILE_FORMATS, POSTGRES)) or "run it with the engine spark"
        raise Configuration(f"{place} has the format {source.format}, which only Spark reads", what=source.name, hint=hint)
    if source.format == POSTGRES:
        assert source.uri is not None
        assert source.table is not None
        table = open_table(source.name, source.uri, source.table)
        return PlannedSource(source, (), 0, tuple(table.schema.names), table)
    if source.format not in FILE_FORMATS:
        return PlannedSource(source, (), 0, None)
    remote = [path for path in source.paths if "://" in path]
    if remote:
        if engine == "local":
            hint = "copy the files, or run it with the engine spark"
            raise Configuration(f"{place} is not on this machine: {remote[0]}", what=source.name, hint=hint)
        return PlannedSource(source, (), 0, None)
    files = tuple(_files(place, source))
    found = Files(source.format, files, source.options)
    try:
        check_options(found)
        known = header(found)
    except BadRequest as error:
        raise Configuration(f"{place}: {error.message}", what=source.name, hint=error.hint) from None
    size = sum(os.path.getsize(path) for path in files)
    columns = None if known is None else tuple(known.names)
    for name in source.columns if columns is not None else ():
        _column(pipeline, f"sources.{source.name}.columns.{name}", name, columns or ())
    return PlannedSource(source, files, size, columns)


def _files(place: str, source: Source) -> Iterable[str]:
    found: dict[str, None] = {}
    for path in source.paths:
        matching = sorted(glob(path, recursive=True)) if has_magic(path) else [path]
        files = [each for each in matching if os.path.isfile(each)]
        if not files:
            is_directory = os.path.isdir(path)
            text = f"{place} is a directory: {path}" if is_directory else f"{place} has no file: {path}"
            hint = (
                f"write {path}/*.{source.format}" if is_directory else "look at the path, which starts beside the pipeline"
            )
            raise NotFound(text, what="file", name=path, hint=hint)
        found |= dict.fromkeys(files)
    return sorted(found)


def _target(pipeline: Pipeline, target: Target, planned: PlannedSource, dialect: MappingDialect) -> PlannedTarget:
    read = columns_read(target.mapping)
    if planned.columns is not None:
        read = list(dict.fromkeys(_column(pipeline, target.place, name, planned.columns) for name in read))
    sql = mapped_sql(target.mapping, read, planned.declared, dialect, pretty=True)
    return PlannedTarget(target, tuple(read), sql)


def _column(pipeline: Pipeline, place: str, name: str, known: Sequence[str]) -> str:
    """A column of a source as it is written there."""
    if name in known:
        return name
    alike = [each for each in known if each.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    hint = did_you_mean(name, known) or f"there are {listing(known) or 'none'}"
    raise Configuration(
        f"{pipeline.path}: `{place}` reads the column `{name}`, which the source does not have", what=place, hint=hint
    )


def run_identity(graph: Graph, plan: Plan) -> list[str] | None:
    """What a run must have in common with another to go on with its work; None if nothing tells."""
    if plan.key is None or plan.inputs is None:
        return None
    rule = plan.pipeline.rejects
    rejects = "" if rule is None else f"{rule.to} {rule.limit}"
    return [plan.key, plan.inputs, plan.engine, plan.branch, graph.catalog.schema_hash, rejects]


def _inputs(pipeline: Pipeline, sources: Iterable[PlannedSource]) -> str | None:
    """A text that is the same as long as the file and its inputs are; None if an input is not made of files."""
    inputs = []
    for each in sources:
        if not each.files:
            return None
        for path in each.files:
            found = os.stat(path)
            inputs.append([os.path.relpath(path, pipeline.path.parent), found.st_size, found.st_mtime_ns])
    document = {name: pipeline.document.get(name) for name in _LOADED}
    text = json.dumps([document, inputs], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
