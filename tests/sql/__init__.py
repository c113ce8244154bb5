"""SQL on graphs, on each engine."""
