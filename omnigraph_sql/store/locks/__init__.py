"""Locks of a graph: files on a local root, lease objects on an object store."""
