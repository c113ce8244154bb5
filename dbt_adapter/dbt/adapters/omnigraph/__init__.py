"""The dbt adapter of omnigraph-sql. Its features have not been released yet."""
