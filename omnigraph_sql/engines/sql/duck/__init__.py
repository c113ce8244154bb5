"""A graph as a catalog of DuckDB, and statements on it."""
