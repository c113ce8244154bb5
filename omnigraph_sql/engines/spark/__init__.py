"""Spark: sessions, and read queries that run on it."""
