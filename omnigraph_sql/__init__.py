"""omnigraph-sql: a versioned, typed property graph on Lance tables.

>>> import omnigraph_sql as og
>>> og.errors.NotFound.kind
'NotFound'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph_sql import _compat, errors
from omnigraph_sql._version import __version__

if TYPE_CHECKING:
    from omnigraph_sql import spark
    from omnigraph_sql.graph import Graph, connect, init

__all__ = ["Graph", "__version__", "connect", "errors", "init", "spark"]

_compat.check_versions()

_LAZY = ("Graph", "connect", "init")


def __getattr__(name: str) -> Any:
    # The graph needs Arrow and Lance, which take their time to import; the version and the errors do not.
    if name in _LAZY:
        from omnigraph_sql import graph

        return getattr(graph, name)
    if name == "spark":
        from importlib import import_module

        return import_module("omnigraph_sql.spark")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
