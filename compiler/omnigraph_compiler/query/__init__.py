"""Queries: parse, type check, lower to IR, describe."""
