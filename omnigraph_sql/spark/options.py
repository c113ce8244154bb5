"""Options of the data source, checked before a job starts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.writes.load.rejects import check_target, checked_limit

_ADDRESS = ("path", "graph")
_READS = (
    "type",
    "branch",
    "version",
    "commit",
    "columns",
    "query",
    "query_name",
    "params",
    "filter",
    "pushdown",
    "partition_rows",
)
_WRITES = (
    "type",
    "branch",
    "load_mode",
    "load_id",
    "message",
    "actor",
    "idempotency_key",
    "source_column",
    "collect_rejects",
    "origins",
    "is_text",
)
_STREAMS = ("type", "branch", "load_mode", "message", "actor", "query_id", "rejects", "max_rejects")
# Spark adds options of its own, for catalog tables and streams.
_ADDED_BY_SPARK = ("checkpointlocation", "serialization.format", "provider", "owner", "external", "location", "queryname")


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of a read: a type or a query, on the head of a branch, a version of it, or a commit."""

    uri: str
    type: str | None
    branch: str
    version: int | None
    commit: str | None
    columns: tuple[str, ...] | None
    query: str | None
    query_name: str | None
    params: Mapping[str, Any] | None
    filter: str | None
    """A condition that rows must satisfy, in SQL."""
    pushdown: bool
    """True if Spark pushes its filters down."""
    partition_rows: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Check the options of a read."""
        settings = _checked(options, _READS, "read")
        if ("type" in settings) == ("query" in settings):
            hint = "give `type` the name of a node or edge type, or `query` the text of a .gq query"
            raise BadRequest("a read needs exactly one of the options `type` and `query`", hint=hint)
        if "commit" in settings and ("version" in settings or "branch" in settings):
            raise BadRequest("a commit is read without the options `branch` and `version`", hint="leave them out")
        for name in ("params", "query_name"):
            if name in settings and "query" not in settings:
                raise BadRequest(f"the option `{name}` belongs to the option `query`", hint="leave it out")
        for name in ("columns", "filter", "pushdown"):
            if name in settings and "query" in settings:
                raise BadRequest(f"the option `{name}` belongs to the option `type`", hint="write it in the query")
        columns = None
        if "columns" in settings:
            columns = tuple(name.strip() for name in settings["columns"].split(",") if name.strip())
            if not columns:
                raise BadRequest("the option `columns` names no column", hint="list them with commas: `id,name`")
            repeated = [name for name in columns if columns.count(name) > 1]
            if repeated:
                raise BadRequest(f"the option `columns` names `{repeated[0]}` more than once", hint="name it once")
        return cls(
            uri=_where(settings),
            type=settings.get("type"),
            branch=settings.get("branch", MAIN),
            version=_whole(settings, "version"),
            commit=settings.get("commit"),
            columns=columns,
            query=settings.get("query"),
            query_name=settings.get("query_name"),
            params=_params(settings.get("params")),
            filter=settings.get("filter"),
            pushdown=_flag(settings, "pushdown"),
            partition_rows=_whole(settings, "partition_rows", least=1) or 1 << 20,
        )


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Options of a batch write."""

    uri: str
    type: str
    branch: str
    mode: str
    load_id: str | None
    message: str | None
    actor: str | None
    idempotency_key: str | None
    source_column: str | None
    collects: bool
    origins: tuple[str, ...] | None
    """The files or tables that numbered rows came from; pipelines set it."""
    is_text: bool

    @classmethod
    def of(cls, options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
        """Check the options of a batch write; `overwrite` is the save mode of Spark."""
        settings = _checked(options, _WRITES, "write")
        mode = _mode(settings, overwrite=overwrite)
        if "load_id" in settings:
            for name in ("message", "actor", "idempotency_key"):
                if name in settings:
                    hint = "give it to og.spark.publish"
                    raise BadRequest(f"a write with a `load_id` is not published, so it takes no `{name}`", hint=hint)
        collects = _flag(settings, "collect_rejects")
        if collects and "load_id" not in settings:
            hint = "give a `load_id`, and publish it with og.spark.publish(..., rejects=FILE, max_rejects=N)"
            raise BadRequest("rejected rows can be collected only by a load that is published by you", hint=hint)
        return cls(
            uri=_where(settings),
            type=_type(settings),
            branch=settings.get("branch", MAIN),
            mode=mode,
            load_id=settings.get("load_id"),
            message=settings.get("message"),
            actor=settings.get("actor"),
            idempotency_key=settings.get("idempotency_key"),
            source_column=settings.get("source_column"),
            collects=collects,
            origins=tuple(json.loads(settings["origins"])) if "origins" in settings else None,
            is_text=_flag(settings, "is_text"),
        )


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Options of a streaming write. Each batch is a commit; the query and the number of the batch make its key."""

    uri: str
    type: str
    branch: str
    mode: str
    message: str | None
    actor: str | None
    query_id: str | None
    checkpoint: str | None
    """The directory in which Spark notes the progress and the id of the query."""
    rejects: str | None = None
    """The directory of the reports: a file for each batch with rejected rows."""
    max_rejects: int | str | None = None
    """The number of rows of a batch that may be rejected; None if faulty rows fail the batch."""

    @classmethod
    def of(cls, options: Mapping[str, str], *, overwrite: bool) -> StreamOptions:
        """Check the options of a streaming write."""
        settings = _checked(options, _STREAMS, "stream")
        if overwrite:
            hint = "use outputMode append, and load_mode merge to replace rows"
            raise BadRequest("a stream cannot be written in the output mode complete", hint=hint)
        mode = _mode(settings, overwrite=False)
        if mode == "overwrite":
            hint = "use load_mode append or merge"
            raise BadRequest("a stream cannot overwrite: each batch would replace the one before", hint=hint)
        rejects, max_rejects = _stream_rejects(settings)
        return cls(
            uri=_where(settings),
            type=_type(settings),
            branch=settings.get("branch", MAIN),
            mode=mode,
            message=settings.get("message"),
            actor=settings.get("actor"),
            query_id=settings.get("query_id") or None,
            checkpoint=settings.get("checkpointlocation"),
            rejects=rejects,
            max_rejects=max_rejects,
        )


def _stream_rejects(settings: Mapping[str, str]) -> tuple[str | None, int | str | None]:
    if "rejects" not in settings and "max_rejects" not in settings:
        return None, None
    text = settings.get("max_rejects", "100%").strip()
    limit = int(text) if text.isascii() and text.isdigit() else text
    checked_limit(limit)
    directory = settings.get("rejects")
    if directory is not None:
        # Each batch has its own file, which a repeated batch overwrites.
        check_target(os.path.join(directory, "batch-0.jsonl") if directory else "", makes_parents=True)
    return directory, limit


def _checked(options: Mapping[str, str], allowed: tuple[str, ...], what: str) -> dict[str, str]:
    """Return the options by their names in lower case; raise for an unknown one."""
    settings = {str(name).lower(): str(value) for name, value in options.items()}
    for name in settings:
        if name not in (*_ADDRESS, *allowed, *_ADDED_BY_SPARK):
            hint = did_you_mean(name, allowed) or f"there are {', '.join(allowed)}"
            raise BadRequest(f"a {what} has no option `{name}`", hint=hint)
    return settings


def _where(settings: Mapping[str, str]) -> str:
    addresses = [_address(settings[name]) for name in _ADDRESS if name in settings]
    if not addresses:
        hint = 'give the directory or s3:// address of the graph: .load(uri), .save(uri) or .option("graph", uri)'
        raise BadRequest("no graph was given", hint=hint)
    if len(set(addresses)) > 1:
        hint = "give one of them: .load(uri) and .save(uri) set the option `path`"
        raise BadRequest(f"two graphs are named: {' and '.join(addresses)}", hint=hint)
    return addresses[0]


def _address(text: str) -> str:
    """Return an address without the `file:` that catalogs of Spark put before paths."""
    return "/" + unquote(text[5:]).lstrip("/") if text.startswith("file:") else text


def _type(settings: Mapping[str, str]) -> str:
    if "type" not in settings:
        hint = 'set it to the name of a node or edge type: .option("type", "Person")'
        raise BadRequest("a write needs the option `type`", hint=hint)
    return settings["type"]


def _mode(settings: Mapping[str, str], *, overwrite: bool) -> str:
    mode = settings.get("load_mode", "overwrite" if overwrite else "append").lower()
    if overwrite and mode != "overwrite":
        hint = f'use .mode("append") with load_mode {mode}'
        raise BadRequest(f"the save mode overwrite and load_mode `{mode}` contradict each other", hint=hint)
    return mode


def _flag(settings: Mapping[str, str], name: str) -> bool:
    value = settings.get(name, "false").lower()
    if value not in ("true", "false"):
        raise BadRequest(f"the option `{name}` is `{value}`", hint="use true or false")
    return value == "true"


def _whole(settings: Mapping[str, str], name: str, least: int = 0) -> int | None:
    if name not in settings:
        return None
    text = settings[name]
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise BadRequest(f"the option `{name}` is `{text}`", hint="give a whole number")
    return int(text)


def _params(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        params = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the option `params` is not JSON: {error}", hint='give an object: {"name": "Ann"}') from None
    if not isinstance(params, dict):
        raise BadRequest("the option `params` is not a JSON object", hint='give an object: {"name": "Ann"}')
    return params
