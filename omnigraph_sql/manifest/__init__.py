"""The manifest: which version of which table a branch shows, and the one publish that changes it."""
