"""Checks of a write against the graph as it will be after it."""
