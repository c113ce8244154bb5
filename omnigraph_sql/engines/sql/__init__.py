"""Plain SQL over the tables of a graph: names, catalogs and statements."""
