"""Runs of pipelines on Spark."""

from __future__ import annotations

from pathlib import Path

from omnigraph_sql import pipeline as pipelines
from omnigraph_sql.pipeline import Pipeline, RunReport
from omnigraph_sql.pipeline.runs import OnProgress


def run_pipeline(
    pipeline: Pipeline | str | Path,
    *,
    branch: str | None = None,
    key: str | None = None,
    master: str | None = None,
    actor: str | None = None,
    progress: OnProgress | None = None,
) -> RunReport:
    """Run a pipeline on Spark: `omnigraph_sql.pipeline.run_pipeline` with `engine="spark"`.

    Args:
        pipeline: the pipeline, or the path of its file.
        branch: the branch to publish to, in place of that of the file.
        key: the idempotency key of the run, in place of that of its inputs.
        master: where Spark runs; the session that is active otherwise, or one on this machine.
        actor: who runs it, for the commit.
        progress: called with each stage as it begins, and with the rows that were read.

    Returns:
        What was read, rejected and published.

    Raises:
        BadRequest: the file is no pipeline, or does not fit the graph.
        ValidationFailed: more rows than `rejects` allows break a rule, or a test of the pipeline failed.

    Example:
        >>> spark = og.spark.session("local[2]")
        >>> report = og.spark.run_pipeline("pipeline.yaml")
        >>> report.engine, [table.published for table in report.tables]
        ('spark', [1])
    """
    return pipelines.run_pipeline(
        pipeline, engine="spark", branch=branch, key=key, master=master, actor=actor, progress=progress
    )
