"""One module for each command of `ogsql`: its name, its arguments and its help text. What it does is in `cli.actions`."""
