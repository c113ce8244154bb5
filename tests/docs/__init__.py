"""Tests of what the project says about itself: every code block and every docstring example runs."""
