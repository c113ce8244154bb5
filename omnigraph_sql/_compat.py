"""The check that the installed libraries fit together, made when `omnigraph_sql` is imported.

pylance 14.0 hands its tables to DataFusion through a provider built for DataFusion 54. With another major version the
provider refuses to load or brings the process down, and neither says why; this check does.
"""

from __future__ import annotations

import os
import sys

from omnigraph_sql.errors import Configuration

NEEDED = {"datafusion": "54", "pylance": "14.0"}
REMEDY = 'pip install "datafusion==54.1.*" "pylance==14.0.*"'


def check_versions() -> None:
    """Raise `Configuration` unless the versions in `NEEDED` are installed.

    Looks at the names of installed packages and imports none of them, so that importing `omnigraph_sql` stays fast.
    """
    complaints = {name: text for name, prefix in NEEDED.items() if (text := _complaint(name, prefix))}
    if complaints:
        raise Configuration(
            f"omnigraph-sql cannot work with the installed libraries: {'; '.join(complaints.values())}",
            what=", ".join(complaints),
            hint=f"run {REMEDY}",
        )


def _complaint(name: str, prefix: str) -> str | None:
    version = _version_of_directory(name) or _version_of_metadata(name)
    if version is None:
        return f"{name} {prefix}.x is needed, but {name} is not installed"
    if version.startswith(f"{prefix}."):
        return None
    return f"{name} {prefix}.x is needed, but {name} {version} is installed"


def _version_of_directory(name: str) -> str | None:
    """The version in the name of the `dist-info` directory: `importlib.metadata` takes longer to import than the rest."""
    start, end = f"{name}-", ".dist-info"
    for directory in sys.path:
        try:
            entries = os.listdir(directory or ".")
        except OSError:
            continue
        for entry in entries:
            if entry.startswith(start) and entry.endswith(end):
                return entry[len(start) : -len(end)]
    return None


def _version_of_metadata(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
