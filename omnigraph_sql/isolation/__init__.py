"""Isolated statements: child processes run them, and may die without harm to the parent."""
