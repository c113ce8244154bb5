"""The tests of omnigraph-sql. Helpers are imported by their full name, such as `tests.docs.blocks`."""
