"""What an engine is asked to run in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph_sql.engines.limits import Limits
from omnigraph_sql.engines.sql.names import Ref


@dataclass(frozen=True)
class Statement:
    """A text with its parameters, for one state of a graph."""

    text: str
    params: Mapping[str, Any]
    own: Ref
    limits: Limits
