"""Loads whose rows many processes write and one publishes."""
