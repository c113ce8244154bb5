"""`python -m ogsql`."""

import sys

from ogsql import main

sys.exit(main())
