"""Plans of pipelines: the files that a run reads, the SQL of each target, the key of the run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql import arguments
from omnigraph_sql.choices import LoadMode, PipelineEngineName
from omnigraph_sql.engines.registry import require_duckdb
from omnigraph_sql.errors import BadRequest, Configuration, NotFound, OmnigraphError, ValidationFailed
from omnigraph_sql.graph import Graph, connect
from omnigraph_sql.ingest.files import LINE, RecordCounts, SourceFiles, check_options, header, raw_batches
from omnigraph_sql.ingest.tables import DatabaseTable, open_table
from omnigraph_sql.pipeline.reject_report import check_report
from omnigraph_sql.pipeline.spec import (
    FILE_FORMATS,
    POSTGRES,
    Pipeline,
    PipelineSource,
    PipelineTarget,
    check_types,
    load_pipeline,
)
from omnigraph_sql.sqltext.row_mapping import MappingDialect, columns_read, json_columns_sql, mapped_sql
from omnigraph_sql.writes.load.edge_identity import identity
from omnigraph_sql.writes.readers import PlacedTable, check_table

ENGINES: Mapping[PipelineEngineName, MappingDialect] = {"spark": "spark", "local": "duckdb"}
"""The engines that run pipelines, and the dialect of each."""


_CLUSTER = ("SPARK_REMOTE", "MASTER", "PYSPARK_GATEWAY_PORT")
"""Environment variables that name a cluster, or that `spark-submit` sets."""
_LOADED = ("mode", "sources", "nodes", "edges")
"""The keys of a file that decide which rows are loaded."""


@dataclass(frozen=True)
class PlannedSource:
    """A source, with the files and columns that are read."""

    source: PipelineSource
    files: tuple[str, ...]
    """In reading order; empty for a source without files on this machine."""
    bytes: int
    columns: tuple[str, ...] | None
    """All its columns; None if only its data shows them."""
    table: DatabaseTable | None = None
    """The table of a database."""

    @property
    def is_visible(self) -> bool:
        """True if this process can read its columns; False if only Spark can."""
        return bool(self.files) or self.table is not None

    @property
    def declared(self) -> Mapping[str, str]:
        """Declared types of its columns, if its values are texts."""
        return self.source.columns if self.source.is_text else {}

    def raw_batches(self, columns: Sequence[str], first: int, step: int, tally: RecordCounts) -> pa.RecordBatchReader:
        """Return a lazy reader of some columns of its rows."""
        if self.table is not None:
            return self.table.raw_batches(columns, first, step, tally)
        return raw_batches(SourceFiles(self.source.format, self.files, self.source.options), columns, first, step, tally)

    def prepare(self, columns: Sequence[str]) -> Callable[[str], str] | None:
        """Return the SQL with which DuckDB splits lines of JSON into columns; None for other formats."""
        return partial(json_columns_sql, columns, LINE) if self.source.format == "jsonl" else None

    def to_dict(self) -> dict[str, Any]:
        source = self.source
        read = {"files": list(self.files), "bytes": self.bytes} if self.files else {}
        table = {} if source.table is None else {"table": source.table}
        return {"name": source.name, "format": source.format, **table, **read}


@dataclass(frozen=True)
class PlannedTarget:
    """A target, the columns of its source that it reads, and its statement over them."""

    target: PipelineTarget
    columns: tuple[str, ...]
    sql: str
    """In the dialect of the engine, over the relation `omnigraph_sql.sqltext.row_mapping.RAW_ROWS`."""

    def to_dict(self) -> dict[str, Any]:
        target = self.target
        return {
            "table_key": target.table_key,
            "source": target.source,
            "columns": list(target.mapping.columns),
            "reads": list(self.columns),
            "sql": self.sql,
        }


@dataclass(frozen=True, kw_only=True)
class PipelinePlan:
    """The plan of a run; its targets are in the order in which they run.

    Example:
        >>> print(og.pipeline.make_plan("pipeline.yaml", key="monday").to_text())
        merge into ..., branch main, with the engine local
        key monday
        source ports: csv, 1 file, 36 bytes
        ...
    """

    pipeline: Pipeline
    """The declaration, as read from the file."""
    engine: PipelineEngineName
    """`local` or `spark`."""
    branch: str
    """The branch that gets the rows."""
    key: str | None
    """The idempotency key. None: every run loads its data."""
    sources: Mapping[str, PlannedSource]
    """Sources by name, with the files to read."""
    targets: tuple[PlannedTarget, ...]
    """Targets in the order in which they are loaded."""
    inputs: str | None = None
    """A hash of what is loaded, from the file and its inputs; None if an input is not made of files."""
    warnings: tuple[str, ...] = ()
    """Probable mistakes; `validate` finds them with the graph."""

    @property
    def dialect(self) -> MappingDialect:
        """The SQL dialect of the statements: `duckdb` or `spark`.

        Example:
            >>> plan = og.pipeline.make_plan("pipeline.yaml")
            >>> plan.dialect
            'duckdb'
        """
        return ENGINES[self.engine]

    @property
    def mode(self) -> LoadMode:
        """The mode of the load.

        Example:
            >>> plan = og.pipeline.make_plan("pipeline.yaml")
            >>> plan.mode
            'merge'
        """
        return self.pipeline.mode

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Sources that only Spark can read: the types that their targets get are unknown before a run.

        Example:
            >>> plan = og.pipeline.make_plan("pipeline.yaml")
            >>> plan.unchecked
            ()
        """
        return tuple(name for name, source in self.sources.items() if not source.is_visible)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values.

        Example:
            >>> plan = og.pipeline.make_plan("pipeline.yaml")
            >>> [target["table_key"] for target in plan.to_dict()["targets"]]
            ['node:Port']
        """
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
            "sources": [source.to_dict() for source in self.sources.values()],
            "targets": [planned.to_dict() for planned in self.targets],
            "rejects": None
            if rejects is None
            else {"to": None if rejects.to is None else str(rejects.to), "max": rejects.limit},
            "tests": [test.name for test in pipeline.tests],
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """Return the plan as a text for people.

        Example:
            >>> plan = og.pipeline.make_plan("pipeline.yaml")
            >>> print(plan.to_text().splitlines()[2])
            source ports: csv, 1 file, 36 bytes
        """
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
        for number, planned in enumerate(self.targets, 1):
            lines += [f"{number}. {planned.target.table_key} from {planned.target.source}"]
            lines += [f"   {line}" for line in planned.sql.splitlines()]
        if pipeline.rejects is not None:
            lines.append(f"at most {pipeline.rejects.limit} rejected, reported in {pipeline.rejects.to or 'no file'}")
        lines += [f"test {test.name}" for test in pipeline.tests]
        return "\n".join(lines) + "\n"


def default_engine(pipeline: Pipeline) -> PipelineEngineName:
    """Return `spark` if the environment names a cluster or only Spark reads a source, else `local`, which starts at once."""
    sources = pipeline.sources.values()
    needs_spark = any(not source.is_local or any("://" in path for path in source.paths) for source in sources)
    return "spark" if needs_spark or any(os.environ.get(name) for name in _CLUSTER) else "local"


def pipeline_or_path(name: str, value: Any) -> Any:
    """Check a parameter that takes a pipeline or the path of its file."""
    if isinstance(value, Pipeline):
        return value
    if not isinstance(value, str | os.PathLike):
        arguments.refuse(name, value, "a pipeline or the path of its file")
    return arguments.path(name, value)


@arguments.checked(
    pipeline=pipeline_or_path,
    engine=arguments.optional(arguments.text),
    branch=arguments.optional(arguments.content),
    key=arguments.optional(arguments.content),
)
def make_plan(
    pipeline: Pipeline | str | Path,
    *,
    engine: PipelineEngineName | None = None,
    branch: str | None = None,
    key: str | None = None,
) -> PipelinePlan:
    """Plan a run. Looks at the files and their headers; reads no rows, and needs no graph.

    Args:
        pipeline: the pipeline, or the path of its file.
        engine: `local` or `spark`; without it `local`, unless there is a cluster to use or a source that only Spark reads.
        branch: the branch that gets the rows, in place of the one in the file.
        key: the idempotency key, in place of the one in the file.

    Returns:
        The plan.

    Raises:
        BadRequest: there is no such engine.
        Configuration: the file is not valid.
        NotFound: the file, or a file of a source, is missing.

    Example:
        >>> plan = og.pipeline.make_plan("pipeline.yaml")
        >>> plan.engine
        'local'
    """
    spec = pipeline if isinstance(pipeline, Pipeline) else load_pipeline(pipeline)
    engine = engine or default_engine(spec)
    if engine not in ENGINES:
        hint = did_you_mean(engine, ENGINES) or f"there are {listing(ENGINES)}"
        raise BadRequest(f"there is no engine `{arguments.shown(engine)}` for pipelines", hint=hint)
    sources = {name: _planned_source(spec, source, engine) for name, source in spec.sources.items()}
    targets = tuple(_planned_target(spec, target, sources[target.source], ENGINES[engine]) for target in spec.targets)
    inputs = _inputs_hash(spec, sources.values())
    derived_key = None if inputs is None else f"pipeline-{inputs}"
    return PipelinePlan(
        pipeline=spec,
        engine=engine,
        branch=spec.branch if branch is None else branch,
        key=key or spec.key or derived_key,
        sources=sources,
        targets=targets,
        inputs=inputs,
    )


@arguments.checked(
    pipeline=pipeline_or_path,
    engine=arguments.optional(arguments.text),
    branch=arguments.optional(arguments.content),
    key=arguments.optional(arguments.content),
)
def validate(
    pipeline: Pipeline | str | Path,
    *,
    engine: PipelineEngineName | None = None,
    branch: str | None = None,
    key: str | None = None,
) -> PipelinePlan:
    """Check a pipeline against its graph without reading rows: types, properties, expressions and tests.

    Args:
        pipeline: the pipeline, or the path of its file.
        engine: `local` or `spark`, as for `make_plan`.
        branch: the branch that gets the rows, in place of the one in the file.
        key: the idempotency key, in place of the one in the file.

    Returns:
        The plan, with warnings about probable mistakes.

    Raises:
        BadRequest: an expression is not valid, or returns what its property cannot take.
        Configuration: the file is not valid, or does not fit the schema.
        NotFound: the graph, the branch, the file, or a file of a source is missing.

    Example:
        >>> og.pipeline.validate("pipeline.yaml").warnings
        ()
    """
    plan = make_plan(pipeline, engine=engine, branch=branch, key=key)
    with connect(plan.pipeline.graph, read_only=True) as graph:
        check_graph(plan, graph)
        return replace(plan, warnings=_merge_warnings(plan, graph))


def _merge_warnings(plan: PipelinePlan, graph: Graph) -> tuple[str, ...]:
    """Return warnings about targets whose edges every run inserts again."""
    if plan.mode != "merge":
        return ()
    targets = [
        planned.target
        for planned in plan.targets
        if planned.target.kind == "edge" and "id" not in planned.target.mapping.columns
    ]
    return tuple(
        f"`{target.place}`: nothing says which edge of the graph a row of {target.type} is, so every run makes new edges: "
        f"map `id`, or declare @unique(src, dst) on {target.type}"
        for target in targets
        if identity(graph.catalog.edges[target.type]) is None
    )


def _check_values(plan: PipelinePlan, graph: Graph) -> None:
    """Raise if an expression is not valid SQL, or its type does not fit the property.

    Expressions are DuckDB's SQL on every engine, so DuckDB checks them, for sources whose columns are known.
    """
    require_duckdb()
    from omnigraph_sql.engines.duckdb.row_mapper import mapped_schema

    for planned in plan.targets:
        source, target = plan.sources[planned.target.source], planned.target
        if not source.is_visible:
            continue
        raw = source.raw_batches(planned.columns, 0, 1, RecordCounts()).schema
        sql = mapped_sql(target.mapping, planned.columns, source.declared, "duckdb")
        try:
            schema = mapped_schema(sql, raw, source.prepare(planned.columns))
            rows = PlacedTable(schema.empty_table().to_reader(), source.source.is_text)
            # Tasks of Spark compute no vectors.
            check_table(target.table_key, rows, graph.catalog, computes=plan.engine == "local")
        except (BadRequest, ValidationFailed) as error:
            place = f"{plan.pipeline.path}: `{target.place}`"
            raise Configuration(f"{place}: {error.message}", what=target.place, hint=error.hint) from None


def check_graph(plan: PipelinePlan, graph: Graph) -> None:
    """Raise if the graph lacks a type, property or branch of the plan, or does not fit its values. Reads no source rows."""
    pipeline = plan.pipeline
    check_report(plan)
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


def _check_tests(plan: PipelinePlan, graph: Graph, branch: str) -> None:
    """Raise if a test is not valid SQL. Its names mean the same once the load is staged."""
    for place, test in enumerate(plan.pipeline.tests):
        try:
            graph.sql(f"EXPLAIN {test.sql}", branch=branch).to_arrow()
        except OmnigraphError as error:
            what = f"tests[{place}].sql"
            raise Configuration(f"{plan.pipeline.path}: `{what}`: {error.message}", what=what, hint=error.hint) from None


def _planned_source(pipeline: Pipeline, source: PipelineSource, engine: str) -> PlannedSource:
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
    source_files = SourceFiles(source.format, files, source.options)
    try:
        check_options(source_files)
        schema = header(source_files)
    except BadRequest as error:
        raise Configuration(f"{place}: {error.message}", what=source.name, hint=error.hint) from None
    size = sum(os.path.getsize(path) for path in files)
    columns = None if schema is None else tuple(schema.names)
    for name in source.columns if columns is not None else ():
        _column(pipeline, f"sources.{source.name}.columns.{name}", name, columns or ())
    return PlannedSource(source, files, size, columns)


def _files(place: str, source: PipelineSource) -> Iterable[str]:
    files: dict[str, None] = {}
    for path in source.paths:
        candidates = sorted(glob(path, recursive=True)) if has_magic(path) else [path]
        matches = [candidate for candidate in candidates if os.path.isfile(candidate)]
        if not matches:
            is_directory = os.path.isdir(path)
            text = f"{place} is a directory: {path}" if is_directory else f"{place} has no file: {path}"
            hint = (
                f"write {path}/*.{source.format}" if is_directory else "look at the path, which starts beside the pipeline"
            )
            raise NotFound(text, what="file", name=path, hint=hint)
        files |= dict.fromkeys(matches)
    return sorted(files)


def _planned_target(
    pipeline: Pipeline, target: PipelineTarget, planned: PlannedSource, dialect: MappingDialect
) -> PlannedTarget:
    read = columns_read(target.mapping)
    if planned.columns is not None:
        read = list(dict.fromkeys(_column(pipeline, target.place, name, planned.columns) for name in read))
    sql = mapped_sql(target.mapping, read, planned.declared, dialect, pretty=True)
    return PlannedTarget(target, tuple(read), sql)


def _column(pipeline: Pipeline, place: str, name: str, columns: Sequence[str]) -> str:
    """Return the name of a column as the source spells it; a name that differs in case alone matches."""
    if name in columns:
        return name
    matches = [column for column in columns if column.lower() == name.lower()]
    if len(matches) == 1:
        return matches[0]
    hint = did_you_mean(name, columns) or f"there are {listing(columns) or 'none'}"
    raise Configuration(
        f"{pipeline.path}: `{place}` reads the column `{name}`, which the source does not have", what=place, hint=hint
    )


def run_identity(graph: Graph, plan: PipelinePlan) -> list[str] | None:
    """Return the values that two runs must share for one to resume the other; None if runs cannot be compared."""
    if plan.key is None or plan.inputs is None:
        return None
    rule = plan.pipeline.rejects
    rejects = "" if rule is None else f"{rule.to} {rule.limit}"
    return [plan.key, plan.inputs, plan.engine, plan.branch, graph.catalog.schema_hash, rejects]


def _inputs_hash(pipeline: Pipeline, sources: Iterable[PlannedSource]) -> str | None:
    """Return a hash of the file and its inputs, by their sizes and times; None if an input is not made of files."""
    inputs = []
    for source in sources:
        if not source.files:
            return None
        for path in source.files:
            status = os.stat(path)
            inputs.append([os.path.relpath(path, pipeline.path.parent), status.st_size, status.st_mtime_ns])
    document = {name: pipeline.document.get(name) for name in _LOADED}
    text = json.dumps([document, inputs], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
