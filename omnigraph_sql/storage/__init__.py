"""Storage: the only room that knows Lance. Everything else works with the handles it gives out."""
