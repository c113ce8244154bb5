"""Sessions of query engines over one snapshot."""
