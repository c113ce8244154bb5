"""History: what a graph held, as load records."""
