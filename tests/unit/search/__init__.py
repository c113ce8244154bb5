"""Search through the public surface, against plain Python."""
