"""What the commands of `ogsql` do, once their arguments are known."""
