"""The public surface, found by introspection, and for each part of it arguments with which a call succeeds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph_compiler
import omnigraph_sql as og
from omnigraph_sql import embeddings, pipeline, project
from omnigraph_sql.graph.sql import Preview
from omnigraph_sql.isolation.wire import IsolatedRequest
from omnigraph_sql.result import Result
from omnigraph_sql.runtime.limits import run_limits
from omnigraph_sql.sql.refs import StateRef
from omnigraph_sql.writes.load.staged_load import StagedLoad
from omnigraph_sql.writes.relational import RelationalWriter
from tests.surface.hostile import NESTED, VALUES
from tests.surface.world import READ, SCHEMA, World

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Exclusion:
    """Parameters that another suite attacks."""

    parameters: str
    """A pattern of `TARGET.PARAMETER`."""
    reason: str


EXCLUSIONS: tuple[Exclusion, ...] = ()
_PARAMETERS = ("*.params",)
"""Mappings whose values are tried too."""


@dataclass(frozen=True)
class Target:
    """A function of the public surface, ready to be called with some arguments."""

    name: str
    call: Callable[[World, Arguments], Any]
    arguments: Callable[[World], Arguments]
    parameters: tuple[str, ...]
    changes: bool = False
    """Whether it writes to the graph."""
    starred: str | None = field(default=None)

    def cases(self) -> Iterator[str]:
        """`TARGET.PARAMETER=VALUE` for everything that is to be tried."""
        for parameter in self.parameters:
            place = f"{self.name}.{parameter}"
            if any(fnmatchcase(place, each.parameters) for each in EXCLUSIONS):
                continue
            yield from (f"{place}={value}" for value in VALUES)
            if any(fnmatchcase(place, pattern) for pattern in _PARAMETERS):
                yield from (f"{place}={value}" for value in NESTED)


def _notes(world: World) -> Arguments:
    return {"schema": "main", "name": "Notes"}


def _copy(world: World) -> Arguments:
    """A relational table of its own."""
    name = world.name()
    world.graph.tables().create_table("main", name, world.table())
    return {"schema": "main", "name": name}


def _fresh_branch(world: World) -> Arguments:
    name = world.name()
    world.graph.create_branch(name)
    return {"name": name}


def _fresh_tag(world: World) -> Arguments:
    name = world.name()
    world.graph.tag(name)
    return {"name": name}


def _changed_branch(world: World) -> str:
    name = world.name()
    world.graph.create_branch(name)
    world.graph.load(world.record(), mode="merge", branch=name)
    return name


def _kept_branch(world: World) -> str:
    name = world.name()
    with world.graph.transaction() as transaction:
        transaction.load(world.record(), mode="merge")
        transaction.keep(name)
    return name


def _last_commit(world: World) -> Arguments:
    world.graph.load(world.record(), mode="merge")
    return {"commit": world.graph.commits()[0].graph_commit_id}


def _commit_elsewhere(world: World) -> str:
    return world.graph.commits(_changed_branch(world))[0].graph_commit_id


def _registered(world: World) -> Arguments:
    name = world.name()
    world.graph.register(name, world.table())
    return {"name": name}


def _csv(world: World) -> Arguments:
    return {"name": world.name(), "source": world.work / "ports.csv", "format": "csv", "delimiter": ",", "header": True}


def _session(world: World) -> Any:
    import duckdb

    return duckdb.connect()


def _keyed(world: World) -> Arguments:
    return {"idempotency_key": world.name()}


_CATALOG = omnigraph_compiler.compile_schema(SCHEMA)
_PORT = _CATALOG.nodes["Port"]
_ASKED = "query asked($code: String, $codes: [String]?) { match { $p: Port { code: $code } } return { $p.code } }"
_CHANGED = "query changed($code: String, $codes: [String]?) { update Port set { title: $code } where code = $code }"
_STATED = "select $code as code, $codes as codes"
_GIVEN = {"code": "NLRTM", "codes": ["NLRTM", "DEHAM"]}
_QUERY = omnigraph_compiler.compile_query(_CATALOG, _ASKED)
_MOCK = embeddings.EmbeddingSettings("mock", "mock")
_CLIENT = embeddings.Client(_MOCK)


def _none(world: World) -> Arguments:
    return {}


def _request(world: World) -> Arguments:
    graph, main = world.graph, StateRef("main")
    return {
        "request": IsolatedRequest(
            uri=str(world.uri),
            schema_hash=graph.catalog.schema_hash,
            text="select 1 as x",
            params={},
            default_state=main,
            pinned=main,
            engine="datafusion",
            limits=run_limits(50.0),
        )
    }


_GRAPH: dict[str, Callable[[World], Arguments]] = {
    "answer": _request,
    "attach": lambda world: {"session": _session(world), "alias": world.name()},
    "branch_infos": _none,
    "baseline": lambda world: {"kinds": ["node"], "types": ["Port"], "ops": ["insert"]},
    "branches": _none,
    "changes": lambda world: {"start": "beginning", "kinds": ["node"], "types": ["Port"], "ops": ["insert"], "limit": 10},
    "cherry_pick": lambda world: {"commit": _commit_elsewhere(world)},
    "cleanup": lambda world: {"keep": 5, "older_than": "7d", "dry_run": True},
    "commit": lambda world: {"commit_id": world.graph.snapshot().commit_id},
    "commit_changes": lambda world: {
        "commit_id": world.graph.snapshot().commit_id,
        "kinds": ["node"],
        "types": ["Port"],
        "ops": ["insert"],
        "limit": 10,
    },
    "commits": lambda world: {"limit": 3, "after": world.graph.snapshot().commit_id},
    "copy": lambda world: {"target": world.root / world.name(), "whole": False},
    "create_branch": lambda world: {"name": world.name()},
    "damaged_branches": _none,
    "datafusion": lambda world: {"memory_limit": 1 << 28},
    "delete_branch": _fresh_branch,
    "delete_tag": _fresh_tag,
    "diff": lambda world: {
        "start": "main",
        "end": "main",
        "kinds": ["node"],
        "types": ["Port"],
        "ops": ["insert"],
        "images": True,
    },
    "discard": lambda world: {"staged": world.staged()},
    "discard_abandoned": _keyed,
    "duckdb": lambda world: {"memory_limit": 1 << 28},
    "ensure_indices": lambda world: {"lance_text": False},
    "entity_history": lambda world: {"type_name": "Port", "entity_id": "NLRTM"},
    "entity_at": lambda world: {"table_key": "node:Port", "entity_id": "NLRTM"},
    "explain": lambda world: {
        "source": _ASKED,
        "params": _GIVEN,
        "timeout": 50.0,
        "memory_limit": 1 << 28,
        "engine": "datafusion",
    },
    "execute": lambda world: {
        "text": f"create table {world.name()} as {_STATED}",
        "params": _GIVEN,
        "engine": "datafusion",
    },
    "export": lambda world: {"types": ["Port"], "with_schema": False},
    "foreign": _none,
    "history_of": lambda world: {"type_name": "Port"},
    "ingest": lambda world: {"data": world.record(), "branch": "main", "mode": "merge"},
    "load": lambda world: {"data": world.record(), "mode": "merge"},
    "merge": lambda world: {
        "source": _changed_branch(world),
        "granularity": "row",
        "resolve": {"Port": "ours"},
        "checks": {"no rows": "select 1 as x where false"},
        "delete_source": False,
        "dry_run": False,
    },
    "mutate": lambda world: {"source": _CHANGED, "params": _GIVEN},
    "note_staged": lambda world: {"staged": world.graph.stage(world.record(), mode="merge", **_keyed(world)), "notes": {}},
    "pinned": lambda world: {"database": "harbour", "schema": "main", "engine": "datafusion"},
    "preview": lambda world: {"staged": world.staged()},
    "publish": lambda world: {"staged": world.staged()},
    "published": _keyed,
    "query": lambda world: {
        "source": _ASKED,
        "params": _GIVEN,
        "timeout": 50.0,
        "memory_limit": 1 << 28,
        "engine": "datafusion",
    },
    "recoveries": _none,
    "refresh": _none,
    "register": _csv,
    "resume": lambda world: {"branch": _kept_branch(world), "engine": "datafusion", "delete_branch": False},
    "restore": lambda world: {"ref": world.graph.snapshot().commit_id},
    "result_schema": lambda world: {"source": READ},
    "revert": _last_commit,
    "snapshot": _none,
    "sql": lambda world: {
        "text": _STATED,
        "params": _GIVEN,
        "timeout": 50.0,
        "memory_limit": 1 << 28,
        "engine": "datafusion",
    },
    "stage": lambda world: {"data": world.record(), "mode": "merge", "on_step": lambda _: None},
    "tables": _none,
    "tag": lambda world: {"name": world.name()},
    "tags": _none,
    "take_over": lambda world: {**_keyed(world), "wanted": lambda _: True},
    "unregister": _registered,
    "transaction": lambda world: {"engine": "datafusion"},
    "use_checks": lambda world: {"checks": {"no rows": "select 1 as x where false"}},
    "use_project": lambda world: {"path": world.work / "omnigraph.yaml"},
    "use_queries": lambda world: {"files": world.work / "ports.gq"},
}
_READS = {
    "answer", "attach", "baseline", "branch_infos", "branches", "changes", "commit", "commit_changes", "commits",
    "damaged_branches", "datafusion", "diff", "duckdb", "entity_at", "entity_history", "explain", "export", "foreign",
    "history_of", "pinned", "published", "query", "recoveries", "register", "result_schema", "snapshot", "sql", "tags",
    "unregister", "use_checks", "use_project", "use_queries",
}  # fmt: skip
_WRITER: dict[str, Callable[[World], Arguments]] = {
    "append": lambda world: {**_notes(world), "data": world.table()},
    "create_schema": lambda world: {"name": world.name()},
    "create_table": lambda world: {"schema": "main", "name": world.name(), "data": world.table(), "replace": True},
    "define_view": lambda world: {
        "schema": "main",
        "name": world.name(),
        "sql": "select 1 as x",
        "dialect": "datafusion",
        "columns": ["x"],
        "replace": True,
    },
    "delete": lambda world: {**_copy(world), "condition": "k = 1"},
    "drop": _copy,
    "drop_schema": lambda world: {"name": world.name(), "cascade": False},
    "rename": lambda world: {**_copy(world), "new_name": world.name()},
    "rewrite": lambda world: {**_copy(world), "condition": "k = 1", "data": world.table()},
    "upsert": lambda world: {**_notes(world), "data": world.table(), "keys": ["k"]},
}
_FUNCTIONS: dict[Callable[..., Any], Callable[[World], Arguments]] = {
    og.init: lambda world: {"uri": world.root / world.name(), "schema": SCHEMA, "force": False, "embedder": None},
    og.connect: lambda world: {"uri": world.uri, "read_only": True, "embedder": "mock", "embed": "off"},
    embeddings.check_model: lambda world: {"type_name": "Port", "prop": _PORT.properties["vec"], "embedder": _CLIENT},
    embeddings.computed_properties: lambda world: {"type_": _PORT},
    embeddings.embed_for: lambda world: {
        "type_name": "Port",
        "prop": _PORT.properties["vec"],
        "texts": ["a"],
        "embedder": _CLIENT,
        "role": "document",
    },
    embeddings.fill: lambda world: {
        "type_": _PORT,
        "rows": pa.table({"title": ["a"], "vec": pa.nulls(1, pa.list_(pa.float32(), 2))}),
        "embedder": _CLIENT,
        "outdated": (),
    },
    embeddings.is_configured: lambda world: {"provider": None, "environ": {}},
    embeddings.is_enabled: lambda world: {"embed": "auto", "configured": True},
    embeddings.normalised: lambda world: {"vectors": np.ones((1, 2), np.float32), "dimension": 2},
    embeddings.outdated_by: lambda world: {"type_": _PORT, "assigned": ["title"]},
    embeddings.resolve: lambda world: {
        "provider": "openai",
        "model": "m",
        "base_url": "https://127.0.0.1/v1",
        "api_key": "k",
        "timeout_ms": 10,
        "deadline_ms": 10,
        "attempts": 1,
        "backoff_ms": 1,
        "environ": {},
    },
    pipeline.load_pipeline: lambda world: {"path": world.work / "pipeline.yaml"},
    pipeline.make_plan: lambda world: {"pipeline": world.work / "pipeline.yaml", "engine": "local"},
    pipeline.validate: lambda world: {"pipeline": world.work / "pipeline.yaml", "engine": "local"},
    pipeline.run_pipeline: lambda world: {
        "pipeline": world.work / "pipeline.yaml",
        "engine": "local",
        "key": world.name(),
        "master": None,
        "progress": None,
    },
    project.find_project: lambda world: {"start": world.work},
    project.load_project: lambda world: {"path": world.work},
    omnigraph_compiler.bind_params: lambda world: {"query": _QUERY, "params": _GIVEN},
    omnigraph_compiler.compile_queries: lambda world: {"catalog": _CATALOG, "text": READ},
    omnigraph_compiler.compile_query: lambda world: {"catalog": _CATALOG, "text": READ, "name": "ports"},
    omnigraph_compiler.compile_schema: lambda world: {"text": SCHEMA},
    omnigraph_compiler.decode_source: lambda world: {"data": b"x"},
    omnigraph_compiler.entity_id: lambda world: {"node": _PORT, "data": {"code": "x"}},
    omnigraph_compiler.format_queries: lambda world: {"text": READ},
    omnigraph_compiler.format_schema: lambda world: {"text": SCHEMA},
    omnigraph_compiler.lint: lambda world: {"catalog": _CATALOG, "text": READ, "schema_path": "a", "query_path": "b"},
    omnigraph_compiler.plan_migration: lambda world: {"old": _CATALOG, "new": _CATALOG},
}
_CHANGING = (og.init, pipeline.run_pipeline)


def _preview(world: World, arguments: Arguments) -> Any:
    with world.graph.preview(world.staged()) as preview:
        return preview.sql(**arguments).to_pylist()


def _embed(world: World, arguments: Arguments) -> Any:
    return _CLIENT.embed(**arguments)


_OTHERS = (
    Target("Preview.sql", _preview, lambda world: {"text": _STATED, "params": _GIVEN}, ("text", "params")),
    Target(
        "Result.to_json",
        lambda world, arguments: world.graph.sql("select 1").to_json(**arguments),
        lambda world: {"javascript_safe": True},
        ("javascript_safe",),
    ),
    Target(
        "StagedLoad.from_json",
        lambda world, arguments: StagedLoad.from_json(**arguments),
        lambda world: {"document": world.staged().to_json()},
        ("document",),
    ),
    Target(
        "embeddings.Settings",
        lambda world, arguments: embeddings.Client(embeddings.EmbeddingSettings(**arguments)).close(),
        lambda world: {
            "provider": "openai",
            "model": "m",
            "base_url": "https://127.0.0.1/v1",
            "api_key": "k",
            "timeout_ms": 10,
            "deadline_ms": 10,
            "attempts": 1,
            "backoff_ms": 1,
        },
        ("provider", "model", "base_url", "api_key", "timeout_ms", "deadline_ms", "attempts", "backoff_ms"),
    ),
    Target(
        "embeddings.Client",
        lambda world, arguments: embeddings.Client(**arguments).embed(["a"], dimension=2),
        lambda world: {"settings": _MOCK, "cache_bytes": 1 << 20},
        ("settings", "cache_bytes"),
    ),
    Target(
        "embeddings.Client.embed",
        _embed,
        lambda world: {"texts": ["a"], "dimension": 2, "role": "document"},
        ("texts", "dimension", "role"),
    ),
    Target(
        "embeddings.Embeddings",
        lambda world, arguments: embeddings.Embeddings(**arguments).client(),
        lambda world: {"embedder": "mock", "environ": {}},
        ("embedder", "environ"),
    ),
    Target(
        "embeddings.Embeddings.is_on",
        lambda world, arguments: embeddings.Embeddings("mock").is_on(**arguments),
        lambda world: {"embed": "auto"},
        ("embed",),
    ),
)
_UNTRIED = {
    (Result, name) for name in ("cancel", "to_arrow", "to_dict", "to_pandas", "to_polars", "to_pylist", "to_json")
} | {
    (Preview, "close"), (Preview, "sql"), (StagedLoad, "to_json"), (StagedLoad, "from_json"), (og.Graph, "close"),
    (embeddings.Client, "close"), (embeddings.Client, "embed"), (embeddings.Embeddings, "client"),
    (embeddings.Embeddings, "is_on"),
}  # fmt: skip
"""Methods that take nothing, or that `_OTHERS` calls."""


def _methods(cls: type, baselines: dict[str, Callable[[World], Arguments]]) -> Iterator[Target]:
    def on(world: World) -> Any:
        return world.graph if cls is og.Graph else world.graph.tables()

    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("_") or (cls, name) in _UNTRIED:
            continue
        baseline = baselines[name]  # whoever adds a method says here how it is called
        parameters = inspect.signature(method).parameters
        starred = next((each.name for each in parameters.values() if each.kind is each.VAR_POSITIONAL), None)
        names = tuple(each for each in parameters if each not in ("self", "options"))
        if name == "register":
            names = (*names, "format", "delimiter", "header", "schema", "types", "table")

        def call(world: World, arguments: Arguments, name: str = name, starred: str | None = starred) -> Any:
            rest = {key: value for key, value in arguments.items() if key != starred}
            args = () if starred is None else (arguments[starred],)
            return getattr(on(world), name)(*args, **rest)

        yield Target(f"{cls.__name__}.{name}", call, baseline, names, cls is RelationalWriter or name not in _READS, starred)


def _functions() -> Iterator[Target]:
    modules = (og, embeddings, pipeline, omnigraph_compiler)
    public = {getattr(module, name) for module in modules for name in module.__all__}
    public |= {project.find_project, project.load_project}
    for function in sorted(filter(inspect.isfunction, public), key=lambda each: f"{each.__module__}.{each.__name__}"):
        baseline = _FUNCTIONS[function]
        names = tuple(inspect.signature(function).parameters)
        module = function.__module__.partition(".")[0] if function.__module__.startswith("omnigraph_compiler") else "og"

        def call(world: World, arguments: Arguments, function: Callable[..., Any] = function) -> Any:
            return function(**arguments)

        yield Target(f"{module}.{function.__name__}", call, baseline, names, function in _CHANGING)


def targets() -> dict[str, Target]:
    """The public surface of Python."""
    found = [*_methods(og.Graph, _GRAPH), *_methods(RelationalWriter, _WRITER), *_functions(), *_OTHERS]
    return {each.name: each for each in found}


def unused(exclusions: Iterable[Exclusion], places: Iterable[str]) -> list[str]:
    """Exclusions that no parameter needs."""
    known = list(places)
    return [each.parameters for each in exclusions if not any(fnmatchcase(place, each.parameters) for place in known)]


def cases() -> list[str]:
    """Everything that is to be tried, in a fixed order."""
    return [case for target in targets().values() for case in target.cases()]
