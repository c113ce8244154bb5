"""A process that has loaded everything and waits: `cuts_template.py LIBRARY`, one job per line of the input.

Each job runs in a fork of it, under the watch of `cut.c`: starting an interpreter and loading the packages would take
several times as long as what is tested. Nothing of Lance has run before a fork, which is what makes it safe.
"""

import ctypes
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

from tests.crash.cuts_writers import WRITERS


def work(library: ctypes.CDLL, name: str, limit: int, directory: Path) -> None:
    """Never returns."""
    errors = os.open(directory / "errors", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(errors, 2)
    library.cut(limit, *(os.fsencode(directory / each) for each in ("g", "begin", "log")))
    try:
        opened = WRITERS[name].opening(directory / "g")
        os.mkdir(directory / "begin")
        WRITERS[name].run(opened)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    warnings.simplefilter("ignore")  # Lance warns of every fork
    library = ctypes.CDLL(sys.argv[1])
    library.cut.argtypes = (ctypes.c_long, *[ctypes.c_char_p] * 3)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            work(library, job["name"], job["limit"], Path(job["directory"]))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
