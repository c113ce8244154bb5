"""Text and vector search over columns of a table version."""
