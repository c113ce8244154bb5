"""A process that opens a graph, arms failpoints and runs one operation: `child.py ROOT OPERATION RULE`.

With OMNIGRAPH_FAILPOINTS set from outside, the opening is interrupted as well.
"""

import os
import signal
import sys

import omnigraph_sql as og
from tests.crash import world


def main() -> None:
    root, operation, rule = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background hands down that it is ignored
    if operation == "init":
        og.init(root, world.SCHEMA, actor=world.ACTOR)
        return
    graph = og.connect(root)
    if rule:
        os.environ["OMNIGRAPH_FAILPOINTS"] = rule
    world.OPERATIONS[operation](graph)


if __name__ == "__main__":
    main()
