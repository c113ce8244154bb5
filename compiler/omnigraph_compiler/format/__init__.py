"""Canonical formatting of schemas and queries."""
