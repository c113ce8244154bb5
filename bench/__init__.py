"""Benchmarks: speed as ratios to peers, measured in one run on the same machine. Run `make bench`."""
