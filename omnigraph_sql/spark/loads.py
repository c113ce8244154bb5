"""Loads of several tables by Spark: written separately, checked and published together."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any

from omnigraph_sql import ulid
from omnigraph_sql.engines.spark.failures import typed_errors
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.writes.lifecycle import open_graph
from omnigraph_sql.writes.load import LoadResult, check_mode
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.rejects import Rejects, RejectTarget
from omnigraph_sql.writes.remote import discard_remote, publish_remote, remote_loads
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

    Leaving the block by an exception discards everything. With `rejects` and `max_rejects` faulty rows are reported and left
    out, as with `Graph.load`.
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
        self._collects = rejects is not None or max_rejects is not None
        self._publish: dict[str, Any] = {
            "message": message,
            "actor": actor,
            "idempotency_key": idempotency_key,
            "rejects": rejects,
            "max_rejects": max_rejects,
        }
        self._result: LoadResult | None = None
        open_graph(self.uri, read_only=True).coordinator.require(branch)

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
        renamed = df.withColumnsRenamed({name: new for name, new in ((src, "src"), (dst, "dst")) if name != new})
        self._write(f"edge:{type.removeprefix('edge:')}", renamed, source_column)

    def _write(self, table: str, df: DataFrame, source_column: str | None) -> None:
        writer = df.write.format("omnigraph").option("type", table).option("branch", self.branch)
        writer = writer.option("load_id", self.load_id).option("load_mode", self.mode)
        writer = writer.option("collect_rejects", str(self._collects).lower())
        if source_column is not None:
            writer = writer.option("source_column", source_column)
        with typed_errors():
            writer.mode("append").save(self.uri)

    def publish(self) -> LoadResult:
        """Publish what was written so far; leaving the block does it."""
        self._result = publish(self.uri, self.load_id, **self._publish)
        return self._result

    def discard(self) -> None:
        """Remove what was written so far."""
        discard(self.uri, self.load_id)
