"""Random walks through the operations of a graph, compared with a model in plain Python."""
