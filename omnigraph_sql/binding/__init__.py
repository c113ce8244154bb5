"""Binding: the functions and relations of a plan, tied to the data of one snapshot. No engine is imported here."""
