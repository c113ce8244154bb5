"""`ogsql init`: a new graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.arrow_import import import_arrow
from omnigraph_sql.cli.byte_streams import byte_source
from omnigraph_sql.cli.projects import schema_path
from omnigraph_sql.cli.source_files import load_text, located
from omnigraph_sql.cli.tables import count
from omnigraph_sql.cli.target import announce, graph_uri, usage_error

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.init import InitOptions
    from omnigraph_sql.graph import Graph


def run(options: InitOptions) -> int:
    """Create the graph and report what is in it."""
    import_arrow()
    from omnigraph_sql.storage.roots import resolve_root

    target = str(resolve_root(graph_uri(options.uri, options.store)))
    if options.bundle is not None:
        if options.schema is not None:
            raise usage_error("--schema and --from exclude each other: a bundle has its own schema")
        return _restored(target, options.bundle, options)
    from omnigraph_sql.graph import init

    path = schema_path(options.schema, "option '--schema'")
    text = load_text(path)
    announce(target, quiet=options.quiet)
    with located(path), init(target, text, actor=options.actor, force=options.force) as graph:
        _report(graph, "created an empty graph", options)
    return 0


def _restored(target: str, path: str, options: InitOptions) -> int:
    from omnigraph_sql.graph import init

    with byte_source(path) as data:
        announce(target, quiet=options.quiet)
        with init(target, bundle=data, actor=options.actor, force=options.force) as graph:
            rows = sum(entry.row_count for entry in graph.snapshot().entries.values())
            _report(graph, f"created a graph of {count(rows, 'record')}", options)
    return 0


def _report(graph: Graph, deed: str, options: InitOptions) -> None:
    catalog = graph.catalog
    if options.as_json:
        output.write_json(
            {
                "uri": graph.uri,
                "schema_hash": catalog.schema_hash,
                "nodes": sorted(catalog.nodes),
                "edges": sorted(catalog.edges),
                "commit": graph.commits(limit=1)[0].to_dict(),
            }
        )
    else:
        types = f"{count(len(catalog.nodes), 'node type')}, {count(len(catalog.edges), 'edge type')}"
        output.write(f"{deed}: {types}\n")
