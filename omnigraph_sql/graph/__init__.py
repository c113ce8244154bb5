"""The public face of a graph: everything that a user does with it from Python."""

from __future__ import annotations

from omnigraph_sql.graph.graph import Graph, connect, init

__all__ = ["Graph", "connect", "init"]
