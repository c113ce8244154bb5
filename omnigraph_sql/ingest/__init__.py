"""Raw rows of files and databases on their way into a graph."""
