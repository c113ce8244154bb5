"""`ogsql version` and `ogsql completion`: versions, and completion scripts for shells."""

from __future__ import annotations

import platform
from importlib import metadata

import click
from click.shell_completion import get_completion_class

from omnigraph_sql._version import __version__
from omnigraph_sql.cli import output


def version(*, as_json: bool) -> int:
    """Print the version; as JSON also those of the storage and query libraries."""
    if as_json:
        libraries = {name: metadata.version(name) for name in ("pylance", "datafusion")}
        output.write_json({"version": __version__, "python": platform.python_version(), **libraries})
    else:
        output.write(f"ogsql {__version__}\n")
    return 0


def completion(command: click.Command, shell: str) -> int:
    """Print the completion script of a shell."""
    completion_class = get_completion_class(shell)
    assert completion_class is not None, shell
    output.write(completion_class(command, {}, "ogsql", "_OGSQL_COMPLETE").source())
    return 0
