"""Loops compiled to machine code by numba. Import these modules inside the function that needs them: numba is slow to load.

What they compile is cached beside the source; where that cannot be written, in the user's cache directory or below
OMNIGRAPH_CACHE_DIR. NUMBA_CACHE_DIR comes before all of them. Kernels check nothing; their callers do.
"""
