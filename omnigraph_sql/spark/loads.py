"""Loads of several tables by Spark: written separately, checked and published together."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from omnigraph_sql import ulid
from omnigraph_sql.choices import LoadMode
from omnigraph_sql.engines.spark.error_codec import typed_errors
from omnigraph_sql.errors import BadRequest, NotFound
from omnigraph_sql.graph.checks import read_checks, store_review
from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.store.lifecycle import open_graph
from omnigraph_sql.writes.distributed.load import discard_remote, find_published, key_of, publish_remote, remote_loads
from omnigraph_sql.writes.load.loads import LoadResult, check_mode, reported_result
from omnigraph_sql.writes.load.rejects import RejectLimit, Rejects, RejectTarget, check_target, checked_limit
from omnigraph_sql.writes.load.staged_load import check_load_id
from omnigraph_sql.writes.operation import Provenance

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
    max_rejects: RejectLimit | None = None,
    checks: Any = None,
) -> LoadResult:
    """Check and publish everything that jobs wrote under a `load_id`, as one commit.

    Publishing twice returns the first commit again. If a rule is broken nothing is published, and the written rows stay
    until they are published or discarded.

    Args:
        uri: the address of the graph.
        load_id: the id of the load.
        message: a note for the history.
        actor: who loads.
        idempotency_key: a load of a key that is in the history of the branch is not published again.
        rejects: report every faulty row to a file or a function, instead of failing at the first.
        max_rejects: how many faulty rows may be left out, or which share of them, as `"0.5%"`.
        checks: reads that must return no row on the graph as it will be, as for `Graph.merge`.

    Returns:
        How many entities were loaded and rejected, and the commit.

    Raises:
        BadRequest: an argument is not valid.
        Conflict: the schema has changed since the rows were written.
        NotFound: nothing was written under this id.
        ValidationFailed: the rows break a rule of the schema.
        DataTestFailed: a check returned rows.

    Example:
        >>> spark = og.spark.session("local[2]")
        >>> ports = spark.createDataFrame([("GBFXT",)], "code string")
        >>> write = ports.write.format("omnigraph").options(type="Port", load_id="night-1").mode("append")
        >>> write.save(graph.uri)
        >>> og.spark.publish(graph.uri, "night-1", message="night run").nodes
        {'Port': 1}
    """
    _check_target(rejects)
    provenance = Provenance("Load", actor, message, idempotency_key)
    store = open_graph(uri)
    review = store_review(store, checks)
    if rejects is None and max_rejects is None:
        return reported_result(publish_remote(store, load_id, provenance, review=review), None)
    reported = Rejects(rejects, max_rejects)
    with reported.delivered():
        result = publish_remote(store, load_id, provenance, reported, review)
    return reported_result(result, reported)


def discard(uri: Uri, load_id: str) -> None:
    """Remove what jobs wrote under a `load_id` and was not published.

    Args:
        uri: the address of the graph.
        load_id: the id of the load.

    Raises:
        BadRequest: the id is not valid.
        NotFound: there is no graph.

    Example:
        >>> spark = og.spark.session("local[2]")
        >>> ports = spark.createDataFrame([("GBFXT",)], "code string")
        >>> write = ports.write.format("omnigraph").options(type="Port", load_id="night-1").mode("append")
        >>> write.save(graph.uri)
        >>> og.spark.discard(graph.uri, "night-1")
        >>> og.spark.staged_loads(graph.uri)
        []
    """
    discard_remote(open_graph(uri), load_id)


def staged_loads(uri: Uri) -> list[str]:
    """Return the ids of unpublished loads.

    Args:
        uri: the address of the graph.

    Returns:
        The ids, sorted.

    Raises:
        NotFound: there is no graph.

    Example:
        >>> spark = og.spark.session("local[2]")
        >>> ports = spark.createDataFrame([("GBFXT",)], "code string")
        >>> write = ports.write.format("omnigraph").options(type="Port", load_id="night-1").mode("append")
        >>> write.save(graph.uri)
        >>> og.spark.staged_loads(graph.uri)
        ['night-1']
    """
    return remote_loads(open_graph(uri, read_only=True))


class GraphLoad:
    """Writes DataFrames to types of a graph and publishes all of them in one commit, or none.

    Leaving the `with` block publishes; leaving it by an exception discards everything. A block in which nothing is written
    makes no commit. A `load_id` or `idempotency_key` names the load, not its rows: if it was published before, nothing is
    written, and the result is the first commit, `replayed`.

    Args:
        spark: the session.
        uri: the address of the graph.
        branch: the branch to load into.
        mode: how the load treats what is there.
        load_id: the id of the load; a new one unless given.
        message: a note for the history.
        actor: who loads.
        idempotency_key: a load of a key that is in the history of the branch is not done again.
        rejects: report every faulty row to a file or a function, instead of failing at the first.
        max_rejects: how many faulty rows may be left out, or which share of them, as `"0.5%"`.
        checks: reads that must return no row on the graph as it will be, as for `Graph.merge`.

    Raises:
        BadRequest: an argument is not valid.
        NotFound: there is no such graph or branch.

    Example:
        >>> spark = og.spark.session("local[2]")
        >>> ports = spark.createDataFrame([("GBFXT",)], "code string")
        >>> with og.spark.GraphLoad(spark, graph.uri, mode="merge", message="night run") as load:
        ...     load.nodes("Port", ports)
        >>> load.result.commit.message
        'night run'
    """

    def __init__(
        self,
        spark: SparkSession,
        uri: Uri,
        *,
        branch: str = MAIN,
        mode: LoadMode = "append",
        load_id: str | None = None,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        rejects: RejectTarget | None = None,
        max_rejects: RejectLimit | None = None,
        checks: Any = None,
    ) -> None:
        self.uri = os.fspath(uri)
        self.branch = branch
        self.mode = check_mode(mode)
        self.load_id = check_load_id(load_id or ulid.new())
        self._spark = spark
        _check_target(rejects)
        Provenance("Load", actor, message, idempotency_key)  # raises for a text that cannot be stored
        checked_limit(max_rejects)
        read_checks(checks)
        self._collects = rejects is not None or max_rejects is not None
        self._publish: dict[str, Any] = {
            "message": message,
            "actor": actor,
            "idempotency_key": idempotency_key,
            "rejects": rejects,
            "max_rejects": max_rejects,
            "checks": checks,
        }
        self._result: LoadResult | None = None
        store = open_graph(self.uri, read_only=True)
        name = store.coordinator.require(branch)
        key = idempotency_key or (None if load_id is None else key_of(load_id))
        self._is_published = key is not None and find_published(store, name, key) is not None
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
        """The result of the published load.

        Raises:
            BadRequest: the load is not published yet.

        Example:
            >>> spark = og.spark.session("local[2]")
            >>> ports = spark.createDataFrame([("GBFXT",)], "code string")
            >>> with og.spark.GraphLoad(spark, graph.uri) as load:
            ...     load.nodes("Port", ports)
            >>> load.result.nodes
            {'Port': 1}
        """
        if self._result is None:
            raise BadRequest("this load is not published yet", hint="read it after the `with` block has ended")
        return self._result

    def nodes(self, type: str, df: DataFrame, *, source_column: str | None = None) -> None:
        """Write nodes. Columns are properties, and `id` where the type has no key.

        Args:
            type: the node type.
            df: the rows.
            source_column: a column that says where a row comes from; reports of rejects show it.

        Raises:
            BadRequest: the columns do not fit the type.
            ValidationFailed: a row breaks a rule of the schema.

        Example:
            >>> spark = og.spark.session("local[2]")
            >>> ports = spark.createDataFrame([("GBFXT",)], "code string")
            >>> with og.spark.GraphLoad(spark, graph.uri) as load:
            ...     load.nodes("Port", ports)
        """
        self._write(f"node:{type.removeprefix('node:')}", df, source_column)

    def edges(
        self, type: str, df: DataFrame, *, src: str = "src", dst: str = "dst", source_column: str | None = None
    ) -> None:
        """Write edges. Columns are properties.

        Args:
            type: the edge type.
            df: the rows.
            src: the column with the ids of the start nodes.
            dst: the column with the ids of the end nodes.
            source_column: a column that says where a row comes from; reports of rejects show it.

        Raises:
            BadRequest: the columns do not fit the type.
            ValidationFailed: a row breaks a rule of the schema.

        Example:
            >>> spark = og.spark.session("local[2]")
            >>> lanes = spark.createDataFrame([("DEDUI", "NLRTM")], "start string, goal string")
            >>> with og.spark.GraphLoad(spark, graph.uri) as load:
            ...     load.edges("Lane", lanes, src="start", dst="goal")
            >>> load.result.edges
            {'Lane': 1}
        """
        for wanted, column in (("src", src), ("dst", dst)):
            if column not in df.columns:
                raise BadRequest(f"there is no column `{column}` for the {wanted} of {type}", hint=f"there are {df.columns}")
        self._write(f"edge:{type.removeprefix('edge:')}", _with_ends(df, src, dst), source_column)

    def _write(self, table: str, df: DataFrame, source_column: str | None) -> None:
        if self._is_published:
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
        """Publish the rows written so far. The end of the block calls it.

        Raises:
            Conflict: the schema has changed since the rows were written.
            ValidationFailed: the rows break a rule of the schema.

        Example:
            >>> spark = og.spark.session("local[2]")
            >>> ports = spark.createDataFrame([("GBFXT",)], "code string")
            >>> load = og.spark.GraphLoad(spark, graph.uri)
            >>> load.nodes("Port", ports)
            >>> load.publish().nodes
            {'Port': 1}
        """
        try:
            self._result = publish(self.uri, self.load_id, **self._publish)
        except NotFound as error:
            if self._has_written or error.what != "staged load":
                raise
            self._result = LoadResult(branch=self.branch, mode=self.mode, nodes={}, edges={}, commit=None)
        return self._result

    def discard(self) -> None:
        """Remove the rows written so far.

        Example:
            >>> spark = og.spark.session("local[2]")
            >>> ports = spark.createDataFrame([("GBFXT",)], "code string")
            >>> load = og.spark.GraphLoad(spark, graph.uri)
            >>> load.nodes("Port", ports)
            >>> load.discard()
            >>> og.spark.staged_loads(graph.uri)
            []
        """
        discard(self.uri, self.load_id)


def _with_ends(df: DataFrame, src: str, dst: str) -> DataFrame:
    """Return the edges with the columns `src` and `dst`; both may come from one column."""
    if src == dst:
        column = df[f"`{src.replace('`', '``')}`"]
        ends = df.withColumns({"src": column, "dst": column})
        return ends if src in ("src", "dst") else ends.drop(src)
    names = {src: "src", dst: "dst"}
    return df.toDF(*(names.get(name, name) for name in df.columns))


def _check_target(rejects: RejectTarget | None) -> None:
    """Raise if rejects cannot be written to a file, or its suffix names no format."""
    check_target(rejects)
    if isinstance(rejects, str | os.PathLike) and Path(rejects).suffix not in (".jsonl", ".parquet"):
        text = f"`rejects` is neither .jsonl nor .parquet: {os.fspath(rejects)}"
        raise BadRequest(text, hint="the suffix decides how rejects are written")
