"""The benchmarks ask what they say they ask."""
