"""In-memory columns, id indexes and adjacency of table versions."""
