"""A process that runs one writer of the cuts: `cuts_child.py ROOT WRITER BEGIN`; BEGIN is made when counting may start."""

import os
import sys
from pathlib import Path

from tests.crash.cuts_writers import WRITERS


def main() -> None:
    root, name, begin = sys.argv[1:]
    writer = WRITERS[name]
    opened = writer.opening(Path(root))
    os.mkdir(begin)
    writer.run(opened)


if __name__ == "__main__":
    main()
