"""`python -m ogsql`."""

from ogsql import main

main()
