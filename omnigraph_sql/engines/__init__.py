"""Query engines: one package each, and the registry that creates them on demand."""
