"""Fuzz tests: whatever comes in, only typed errors come out, and soon."""
