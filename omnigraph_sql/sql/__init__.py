"""SQL over a graph, without an engine: references, name resolution, functions and the information schema."""
