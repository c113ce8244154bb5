"""`python -m tests.concurrency.turns ROLE ROOT …`: a process that waits for its turn at a lock, or writes for a while."""

import sys
import time
from collections.abc import Callable

import omnigraph_sql as og
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.roots import resolve_root
from omnigraph_sql.store.locks.manager import open_locks

UPDATE = "query q($k: String, $n: I32) { update T set { n: $n } where k = $k }"
INSERT = "query q($k: String, $n: I32) { insert TABLE { k: $k, n: $n } }"


def hold(root: str, key: str, name: str) -> None:
    """Take a lock, say when it came and hold it until standard input says so."""
    print("waits", flush=True)
    with open_locks(open_objects(resolve_root(root))).hold([key]):
        print(f"has {name}", flush=True)
        sys.stdin.readline()
    print("left", flush=True)


def write(root: str, table: str, key: str, seconds: str) -> None:
    """Write again and again; say for each write how long it took. An update of a row of `T`, an insert elsewhere."""
    graph = og.connect(root)
    source = UPDATE if table == "T" else INSERT.replace("TABLE", table)
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + float(seconds)
    number = 0
    while (begin := time.monotonic()) < end:
        number += 1
        graph.mutate(source, params={"k": key if table == "T" else f"{key}-{number}", "n": number})
        print(f"wrote {number} {time.monotonic() - begin:.3f}", flush=True)


ROLES: dict[str, Callable[..., None]] = {"hold": hold, "write": write}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
