"""The literal types of options of public functions."""

from __future__ import annotations

from typing import Literal, TypeAlias

LoadMode: TypeAlias = Literal["append", "merge", "overwrite"]
"""The mode of a load: `append` inserts, `merge` inserts or replaces by id, `overwrite` replaces whole types."""
EngineName: TypeAlias = Literal["datafusion", "duckdb", "spark"]
"""The engines of `.gq` queries. Statements of SQL run on `datafusion` and `duckdb`."""
PipelineEngineName: TypeAlias = Literal["local", "spark"]
"""The engines of pipelines: this process, or Spark."""
ExtraColumns: TypeAlias = Literal["refuse", "skip"]
"""The treatment of columns that are not properties of the type: `refuse` raises, `skip` ignores them."""
MergeGranularity: TypeAlias = Literal["row", "column"]
"""What two sides of a merge may both change: with `row` no row, with `column` a row, but not the same property of it."""
WriteMode: TypeAlias = Literal["create", "replace", "append"]
"""What a write to a relational table does: make it, make or replace it, or add rows to it."""
