"""The check that the installed libraries fit together, made when `omnigraph_sql` is imported.

pylance 14.0 hands its tables to DataFusion through a provider built for DataFusion 54. With another major version the
provider refuses to load or brings the process down, and neither says why; this check does.
"""

from __future__ import annotations

from importlib import metadata

from omnigraph_sql.errors import Configuration

NEEDED = {"datafusion": "54", "pylance": "14.0"}
REMEDY = 'pip install "datafusion==54.1.*" "pylance==14.0.*"'


def check_versions() -> None:
    """Raise `Configuration` unless the versions in `NEEDED` are installed.

    Reads the installed packages' metadata and imports none of them, so that importing `omnigraph_sql` stays fast.
    """
    complaints = {name: text for name, prefix in NEEDED.items() if (text := _complaint(name, prefix))}
    if complaints:
        raise Configuration(
            f"omnigraph-sql cannot work with the installed libraries: {'; '.join(complaints.values())}",
            what=", ".join(complaints),
            hint=f"run {REMEDY}",
        )


def _complaint(name: str, prefix: str) -> str | None:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} {prefix}.x is needed, but {name} is not installed"
    if found.startswith(f"{prefix}."):
        return None
    return f"{name} {prefix}.x is needed, but {name} {found} is installed"
