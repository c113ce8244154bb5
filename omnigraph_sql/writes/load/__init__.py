"""Loads: validated, staged and published in one commit."""
