"""Running `ogsql` the way a shell does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.warm import warm_ogsql

OGSQL = Path(sys.executable).with_name("ogsql")
TIMEOUT = 60

SCHEMA = """\
node Port {
  code: String @key
  depth: F64?
}

edge Lane: Port -> Port
"""
QUERIES = """\
query deep($depth: F64) {
  match {
    $p: Port
    $p.depth > $depth
  }
  return { $p.code }
}

query dredge($code: String, $depth: F64) {
  update Port set { depth: $depth } where code = $code
}
"""
MISSPELT = "query q() { match { $p: Prot } return { $p } }\n"
"""A query that parses but names no type of the schema: T1 at 1:25."""
BROKEN = "query q( {\n"


@dataclass(frozen=True)
class Finished:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document it must be."""
        return json.loads(self.out)


def environment(**changes: str) -> dict[str, str]:
    """An environment that is the same wherever the tests run."""
    unwanted = ("NO_COLOR", "FORCE_COLOR", "PYTEST", "PYTHON", "OMNIGRAPH", "LC_", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    if "PYTHONPATH" in os.environ:
        kept["PYTHONPATH"] = os.environ["PYTHONPATH"]  # the executable must run the code that is being tested
    path = os.pathsep.join([str(OGSQL.parent), os.environ.get("PATH", os.defpath)])
    return {**kept, "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm-256color", **changes}


def ogsql(
    *arguments: str | Path, cwd: Path | None = None, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Finished:
    """Run the executable to its end: in a warm process, unless the environment changes how the interpreter starts."""
    executable = OGSQL if any(name.startswith("PYTHON") for name in env or {}) else warm_ogsql()
    result = subprocess.run(
        [str(executable), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=environment(**(env or {})),
        check=False,
        timeout=TIMEOUT,
    )
    finished = Finished(result.returncode, result.stdout.decode(), result.stderr.decode())
    assert "Traceback" not in finished.err, finished.err
    return finished
