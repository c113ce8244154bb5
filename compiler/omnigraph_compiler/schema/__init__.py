"""Schemas: parse, check, catalog, migration plan."""
