"""Maintenance: building indexes, and cleanup of old versions and files. Neither changes an answer."""
