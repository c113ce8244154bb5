"""Texts of SQL: parsing, limits, rewriting and rendering for callers other than the planner."""
