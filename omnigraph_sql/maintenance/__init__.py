"""Indexes and upkeep of a graph: derived state, which changes speed and never answers."""
