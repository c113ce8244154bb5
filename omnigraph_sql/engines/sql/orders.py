"""What an engine is asked to run in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph_sql.engines.limits import Limits
from omnigraph_sql.engines.sql.names import Ref
from omnigraph_sql.manifest.snapshot import Snapshot


@dataclass(frozen=True)
class Statement:
    """A text with its parameters, for one state of a graph."""

    text: str
    params: Mapping[str, Any]
    own: Ref
    limits: Limits
    states: dict[Ref, Snapshot] = field(default_factory=dict)
    """What refs show to it. States are added as they are looked up, so that it reads the same when it is run again."""
