"""`ogsql init`: a new graph."""

from __future__ import annotations

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import announce, graph_uri
from omnigraph_sql.cli.sources import load_text, located
from omnigraph_sql.cli.tabulating import count
from omnigraph_sql.graph import init
from omnigraph_sql.storage.roots import resolve_root


def run(
    uri: str | None, store: str | None, schema: str, *, force: bool, actor: str | None, quiet: bool, as_json: bool
) -> int:
    """Create the graph and say what it can hold."""
    target = str(resolve_root(graph_uri(uri, store)))
    text = load_text(schema)
    announce(target, quiet=quiet)
    with located(schema), init(target, text, actor=actor, force=force) as graph:
        catalog = graph.catalog
        if as_json:
            head = graph.commits()[0]
            output.write_json(
                {
                    "uri": graph.uri,
                    "schema_hash": catalog.schema_hash,
                    "nodes": sorted(catalog.nodes),
                    "edges": sorted(catalog.edges),
                    "commit": head.to_dict(),
                }
            )
        else:
            types = f"{count(len(catalog.nodes), 'node type')}, {count(len(catalog.edges), 'edge type')}"
            output.write(f"created an empty graph: {types}\n")
    return 0
