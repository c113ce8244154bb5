"""The macros that belong to the dbt adapter of omnigraph-sql. There are none yet."""
