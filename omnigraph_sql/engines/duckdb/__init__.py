"""DuckDB: read queries, connections and SQL statements."""
