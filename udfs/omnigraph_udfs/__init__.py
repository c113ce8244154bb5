"""Vectorised graph operators over Arrow and NumPy arrays.

This package is the place for operators that SQL has no word for. They take and return arrays, know nothing of
storage, and are written once for every engine. It holds no operator yet.
"""
