"""Loops compiled to machine code by numba. Import these modules inside the function that needs them: numba is slow to load.

What they compile is kept beside the source, or in the user's cache directory where that cannot be written. They check
nothing; their callers do.
"""
