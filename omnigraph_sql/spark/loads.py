"""Loads of several tables by Spark: written separately, checked and published together."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from omnigraph_sql import ulid
from omnigraph_sql.engines.spark.failures import typed_errors
from omnigraph_sql.errors import BadRequest, NotFound
from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.writes.lifecycle import open_graph
from omnigraph_sql.writes.load import LoadResult, check_mode
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.rejects import Rejects, RejectTarget
from omnigraph_sql.writes.remote import discard_remote, find_published, key_of, publish_remote, remote_loads
from omnigraph_sql.writes.staged import check_load_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Uri = str | os.PathLike[str]


def publish(
    uri: Uri,
    load_id: str,
    *,
    message: str | None = None,
    actor: str | None = None,
    idempotency_key: str | None = None,
    rejects: RejectTarget | None = None,
    max_rejects: int | None = None,
) -> LoadResult:
    """Check and publish everything that jobs wrote under a `load_id`, as one commit.

    Publishing twice gives the first commit again. If a rule is broken nothing is published, and what was written stays until
    it is published or discarded. `rejects` and `max_rejects` report faulty rows and leave them out, as with `Graph.load`.
    """
    _check_target(rejects)
    provenance = Provenance("Load", actor, message, idempotency_key)
    reported = None if rejects is None and max_rejects is None else Rejects(rejects, max_rejects)
    try:
        return publish_remote(open_graph(uri), load_id, provenance, reported)
    finally:
        if reported is not None:
            reported.deliver()


def discard(uri: Uri, load_id: str) -> None:
    """Remove what jobs wrote under a `load_id` and nobody published."""
    discard_remote(open_graph(uri), load_id)


def staged_loads(uri: Uri) -> list[str]:
    """The ids of loads that wait to be published."""
    return remote_loads(open_graph(uri, read_only=True))


class GraphLoad:
    """Writes DataFrames to types of a graph and publishes all of them in one commit, or none.

        with og.spark.GraphLoad(spark, uri, mode="merge") as load:
            load.nodes("Person", people)
            load.edges("Knows", pairs, src="person", dst="friend")
        load.result.commit

    Leaving the block by an exception discards everything. A block in which nothing is written makes no commit: that of its
    result is None. With `rejects` and `max_rejects` faulty rows are reported and left out, as with `Graph.load`.

    A `load_id` or `idempotency_key` names the load, not its rows: if it was published before, nothing is written, and the
    result is the first commit, `replayed`.
    """

    def __init__(
        self,
        spark: SparkSession,
        uri: Uri,
        *,
        branch: str = MAIN,
        mode: str = "append",
        load_id: str | None = None,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        rejects: RejectTarget | None = None,
        max_rejects: int | None = None,
    ) -> None:
        self.uri = os.fspath(uri)
        self.branch = branch
        self.mode = check_mode(mode)
        self.load_id = check_load_id(load_id or ulid.new())
        self._spark = spark
        _check_target(rejects)
        self._collects = rejects is not None or max_rejects is not None
        self._publish: dict[str, Any] = {
            "message": message,
            "actor": actor,
            "idempotency_key": idempotency_key,
            "rejects": rejects,
            "max_rejects": max_rejects,
        }
        self._result: LoadResult | None = None
        engine = open_graph(self.uri, read_only=True)
        name = engine.coordinator.require(branch)
        key = idempotency_key or (None if load_id is None else key_of(load_id))
        self._is_known = key is not None and find_published(engine, name, key) is not None
        self._has_written = False

    def __enter__(self) -> GraphLoad:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.discard()
            return
        try:
            self.publish()
        except BaseException:
            self.discard()
            raise

    @property
    def result(self) -> LoadResult:
        """What was published."""
        if self._result is None:
            raise BadRequest("this load is not published yet", hint="it is when the `with` block ends")
        return self._result

    def nodes(self, type: str, df: DataFrame, *, source_column: str | None = None) -> None:
        """Write nodes: columns are properties, and `id` where the type has no key. `source_column` is told with rejects."""
        self._write(f"node:{type.removeprefix('node:')}", df, source_column)

    def edges(
        self, type: str, df: DataFrame, *, src: str = "src", dst: str = "dst", source_column: str | None = None
    ) -> None:
        """Write edges; `src` and `dst` are the columns with the ids of the nodes they join."""
        for wanted, column in (("src", src), ("dst", dst)):
            if column not in df.columns:
                raise BadRequest(f"there is no column `{column}` for the {wanted} of {type}", hint=f"there are {df.columns}")
        self._write(f"edge:{type.removeprefix('edge:')}", _with_ends(df, src, dst), source_column)

    def _write(self, table: str, df: DataFrame, source_column: str | None) -> None:
        if self._is_known:
            return
        self._has_written = True
        writer = df.write.format("omnigraph").option("type", table).option("branch", self.branch)
        writer = writer.option("load_id", self.load_id).option("load_mode", self.mode)
        writer = writer.option("collect_rejects", str(self._collects).lower())
        if source_column is not None:
            writer = writer.option("source_column", source_column)
        with typed_errors():
            writer.mode("append").save(self.uri)

    def publish(self) -> LoadResult:
        """Publish what was written so far; leaving the block does it."""
        try:
            self._result = publish(self.uri, self.load_id, **self._publish)
        except NotFound as error:
            if self._has_written or error.what != "staged load":
                raise
            self._result = LoadResult(self.branch, self.mode, {}, {}, None)
        return self._result

    def discard(self) -> None:
        """Remove what was written so far."""
        discard(self.uri, self.load_id)


def _with_ends(df: DataFrame, src: str, dst: str) -> DataFrame:
    """Edges with the columns `src` and `dst`; both may come from one column."""
    if src == dst:
        given = df[f"`{src.replace('`', '``')}`"]
        ends = df.withColumns({"src": given, "dst": given})
        return ends if src in ("src", "dst") else ends.drop(src)
    names = {src: "src", dst: "dst"}
    return df.toDF(*(names.get(name, name) for name in df.columns))


def _check_target(rejects: RejectTarget | None) -> None:
    """Raise if it is not clear how rejects are written: the suffix of a file says it."""
    if isinstance(rejects, str | os.PathLike) and Path(rejects).suffix not in (".jsonl", ".parquet"):
        text = f"`rejects` is neither .jsonl nor .parquet: {os.fspath(rejects)}"
        raise BadRequest(text, hint="the suffix decides how rejects are written")
