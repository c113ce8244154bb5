"""Copies: a graph of its own at another root, with everything that it reads in itself."""
