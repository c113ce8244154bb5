"""Objects in a local directory.

A write goes to a temporary file in the same directory, is flushed to disk and then renamed or linked into its place.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph_sql.storage.failures import translate
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.roots import LocalRoot

_TEMPORARY = ".tmp-"


class LocalObjects(ObjectStore):
    """Objects as files."""

    def __init__(self, root: LocalRoot) -> None:
        super().__init__(root)
        self._directory = root.path

    def _path(self, name: str) -> Path:
        return self._directory / name

    def verify(self, name: str) -> None:
        """Nothing to try: a file system that cannot link refuses to create the first object."""

    def _translate(self, error: Exception, name: str) -> Exception | None:
        return translate(error, str(self._path(name))) if isinstance(error, OSError) else None

    def _read(self, name: str) -> bytes:
        return self._path(name).read_bytes()

    def _write(self, name: str, data: bytes) -> None:
        os.replace(self._temporary(name, [data]), self._path(name))

    def _create(self, name: str, data: bytes) -> bool:
        temporary = self._temporary(name, [data])
        try:
            os.link(temporary, self._path(name))
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        return True

    def _exists(self, name: str) -> bool:
        return self._path(name).exists()

    def _has_prefix(self, name: str) -> bool:
        return self._path(name).is_dir()

    def _rename(self, name: str, new_name: str) -> None:
        self._path(new_name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._path(name), self._path(new_name))

    def _delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._path(name).unlink()

    def _delete_prefix(self, name: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path(name))

    def _list(self, name: str) -> Iterable[str]:
        try:
            return [entry.name for entry in os.scandir(self._path(name)) if not entry.name.startswith(_TEMPORARY)]
        except FileNotFoundError:
            return []

    def _write_chunks(self, name: str, chunks: Iterable[bytes]) -> None:
        os.replace(self._temporary(name, chunks), self._path(name))

    def _open(self, name: str) -> Any:
        return pa.OSFile(str(self._path(name)))

    def _temporary(self, name: str, chunks: Iterable[bytes]) -> str:
        target = self._path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.writelines(chunks)
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        return temporary
