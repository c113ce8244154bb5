"""Declared pipelines: from raw files to a validated graph that is published in one commit."""

from omnigraph_sql.pipeline.plan import PipelinePlan, make_plan, validate
from omnigraph_sql.pipeline.report import RunReport
from omnigraph_sql.pipeline.runs import run_pipeline
from omnigraph_sql.pipeline.spec import Pipeline, load_pipeline

__all__ = ["Pipeline", "PipelinePlan", "RunReport", "load_pipeline", "make_plan", "run_pipeline", "validate"]
