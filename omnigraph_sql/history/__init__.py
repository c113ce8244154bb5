"""History: commits, differences between states, and export as load records."""
