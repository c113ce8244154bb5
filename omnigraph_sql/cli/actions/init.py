"""`ogsql init`: a new graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.arrow_import import import_arrow
from omnigraph_sql.cli.projects import schema_path
from omnigraph_sql.cli.source_files import load_text, located
from omnigraph_sql.cli.tables import count
from omnigraph_sql.cli.target import announce, graph_uri

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.init import InitOptions


def run(options: InitOptions) -> int:
    """Create the graph and report its types."""
    import_arrow()
    from omnigraph_sql.graph import init
    from omnigraph_sql.storage.roots import resolve_root

    target = str(resolve_root(graph_uri(options.uri, options.store)))
    path = schema_path(options.schema, "option '--schema'")
    text = load_text(path)
    announce(target, quiet=options.quiet)
    with located(path), init(target, text, actor=options.actor, force=options.force) as graph:
        catalog = graph.catalog
        if options.as_json:
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
