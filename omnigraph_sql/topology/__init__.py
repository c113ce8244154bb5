"""Columns, ids and adjacency of table versions, kept in memory."""
