"""Three-way merges of branches, and what is a merge with other bases: reverting, restoring, picking a commit."""
