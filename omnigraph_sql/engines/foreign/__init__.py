"""Foreign tables: data that lives elsewhere, and is joined with the tables of a graph in one statement."""
