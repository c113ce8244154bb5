"""Writes: staging, validation, the write protocol and recovery. Everything that changes a graph goes through here."""
