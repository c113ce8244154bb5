"""The command line, tested as its users meet it: the real executable in a process of its own."""
