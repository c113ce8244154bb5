"""Several processes on one graph."""
