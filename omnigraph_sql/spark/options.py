"""Options of the data source, checked before anything works with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.coordinator import MAIN

_WHERE = ("path", "graph")
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
_STREAMS = ("type", "branch", "load_mode", "message", "actor", "query_id")
# Spark adds some of its own, among them those of catalog tables and of streams.
_SPARKS = ("checkpointlocation", "serialization.format", "provider", "owner", "external", "location", "queryname")


@dataclass(frozen=True)
class ReadOptions:
    """What is read: a type, or the rows of a query; of a branch as it is now, at a version, or of a commit."""

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
    """Whether Spark hands its own conditions over."""
    partition_rows: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """The options of a read."""
        given = _checked(options, _READS, "read")
        if ("type" in given) == ("query" in given):
            hint = "give `type` the name of a node or edge type, or `query` the text of a .gq query"
            raise BadRequest("a read needs exactly one of the options `type` and `query`", hint=hint)
        if "commit" in given and ("version" in given or "branch" in given):
            raise BadRequest("a commit is read without the options `branch` and `version`", hint="leave them out")
        for name in ("params", "query_name"):
            if name in given and "query" not in given:
                raise BadRequest(f"the option `{name}` belongs to the option `query`", hint="leave it out")
        for name in ("columns", "filter", "pushdown"):
            if name in given and "query" in given:
                raise BadRequest(f"the option `{name}` belongs to the option `type`", hint="say it in the query")
        columns = None
        if "columns" in given:
            columns = tuple(name.strip() for name in given["columns"].split(",") if name.strip())
            if not columns:
                raise BadRequest("the option `columns` names no column", hint="list them with commas: `id,name`")
            twice = [name for name in columns if columns.count(name) > 1]
            if twice:
                raise BadRequest(f"the option `columns` names `{twice[0]}` more than once", hint="name it once")
        return cls(
            _where(given),
            given.get("type"),
            given.get("branch", MAIN),
            _whole(given, "version"),
            given.get("commit"),
            columns,
            given.get("query"),
            given.get("query_name"),
            _params(given.get("params")),
            given.get("filter"),
            _flag(given, "pushdown"),
            _whole(given, "partition_rows", least=1) or 1 << 20,
        )


@dataclass(frozen=True)
class WriteOptions:
    """Where rows go, and how."""

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
    """What rows came from that bring their numbers along; pipelines write such."""
    is_text: bool

    @classmethod
    def of(cls, options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
        """The options of a batch write; `overwrite` is the save mode of Spark."""
        given = _checked(options, _WRITES, "write")
        mode = _mode(given, overwrite=overwrite)
        if "load_id" in given:
            for name in ("message", "actor", "idempotency_key"):
                if name in given:
                    hint = "give it to og.spark.publish"
                    raise BadRequest(f"a write with a `load_id` is not published, so it takes no `{name}`", hint=hint)
        collects = _flag(given, "collect_rejects")
        if collects and "load_id" not in given:
            hint = "give a `load_id`, and publish it with og.spark.publish(..., rejects=FILE, max_rejects=N)"
            raise BadRequest("rejected rows can be collected only by a load that is published by you", hint=hint)
        return cls(
            _where(given),
            _type(given),
            given.get("branch", MAIN),
            mode,
            given.get("load_id"),
            given.get("message"),
            given.get("actor"),
            given.get("idempotency_key"),
            given.get("source_column"),
            collects,
            tuple(json.loads(given["origins"])) if "origins" in given else None,
            _flag(given, "is_text"),
        )


@dataclass(frozen=True)
class StreamOptions:
    """Where the batches of a stream go. Each is a commit, under a key made of the query and the number of the batch."""

    uri: str
    type: str
    branch: str
    mode: str
    message: str | None
    actor: str | None
    query_id: str | None
    checkpoint: str | None
    """Where Spark notes what the query has done; its id is there as well."""

    @classmethod
    def of(cls, options: Mapping[str, str], *, overwrite: bool) -> StreamOptions:
        """The options of a streaming write."""
        given = _checked(options, _STREAMS, "stream")
        if overwrite:
            hint = "use outputMode append, and load_mode merge to replace rows"
            raise BadRequest("a stream cannot be written in the output mode complete", hint=hint)
        mode = _mode(given, overwrite=False)
        if mode == "overwrite":
            hint = "use load_mode append or merge"
            raise BadRequest("a stream cannot overwrite: each batch would replace the one before", hint=hint)
        return cls(
            _where(given),
            _type(given),
            given.get("branch", MAIN),
            mode,
            given.get("message"),
            given.get("actor"),
            given.get("query_id") or None,
            given.get("checkpointlocation"),
        )


def _checked(options: Mapping[str, str], known: tuple[str, ...], what: str) -> dict[str, str]:
    """The options by their names in lower case; names that mean nothing are refused."""
    given = {str(name).lower(): str(value) for name, value in options.items()}
    for name in given:
        if name not in (*_WHERE, *known, *_SPARKS):
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise BadRequest(f"a {what} has no option `{name}`", hint=hint)
    return given


def _where(given: Mapping[str, str]) -> str:
    found = [_address(given[name]) for name in _WHERE if name in given]
    if not found:
        hint = 'give the directory or s3:// address of the graph: .load(uri), .save(uri) or .option("graph", uri)'
        raise BadRequest("which graph is meant is not said", hint=hint)
    if len(set(found)) > 1:
        hint = "give one of them: .load(uri) and .save(uri) set the option `path`"
        raise BadRequest(f"two graphs are named: {' and '.join(found)}", hint=hint)
    return found[0]


def _address(text: str) -> str:
    """Catalogs of Spark hand paths over as `file:/…`."""
    return "/" + unquote(text[5:]).lstrip("/") if text.startswith("file:") else text


def _type(given: Mapping[str, str]) -> str:
    if "type" not in given:
        hint = 'set it to the name of a node or edge type: .option("type", "Person")'
        raise BadRequest("a write needs the option `type`", hint=hint)
    return given["type"]


def _mode(given: Mapping[str, str], *, overwrite: bool) -> str:
    mode = given.get("load_mode", "overwrite" if overwrite else "append").lower()
    if overwrite and mode != "overwrite":
        hint = f'use .mode("append") with load_mode {mode}'
        raise BadRequest(f"the save mode overwrite and load_mode `{mode}` contradict each other", hint=hint)
    return mode


def _flag(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name, "false").lower()
    if value not in ("true", "false"):
        raise BadRequest(f"the option `{name}` is `{value}`", hint="use true or false")
    return value == "true"


def _whole(given: Mapping[str, str], name: str, least: int = 0) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise BadRequest(f"the option `{name}` is `{text}`", hint="give a whole number")
    return int(text)


def _params(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadRequest(f"the option `params` is not JSON: {error}", hint='give an object: {"name": "Ann"}') from None
    if not isinstance(found, dict):
        raise BadRequest("the option `params` is not a JSON object", hint='give an object: {"name": "Ann"}')
    return found
