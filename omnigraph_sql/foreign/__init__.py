"""Foreign tables: data that lives elsewhere and joins with the tables of a graph in one statement."""
