"""The open graph: creating and opening it, its locks and sidecars, and recovery. Reads and writes stand on it."""
