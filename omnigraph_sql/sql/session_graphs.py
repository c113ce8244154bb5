"""Registry of the graphs attached to sessions of DataFusion and DuckDB."""

from __future__ import annotations

import weakref
from typing import Any

_GRAPHS: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def graphs_of(session: Any) -> dict[str, Any]:
    """Return the graphs of a session by alias, in the order in which they were attached.

    The functions of the first graph have no prefix; those of a graph with an alias have it as a prefix.
    """
    return _GRAPHS.setdefault(session, {})
