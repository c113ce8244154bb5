"""Objects in a local directory.

A write goes to a temporary file in the same directory, is flushed to disk and then renamed or linked into its place.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from omnigraph_sql.errors import Storage
from omnigraph_sql.storage import durability, temp_files
from omnigraph_sql.storage.error_translation import translate
from omnigraph_sql.storage.files import DatasetFiles, LocalFiles
from omnigraph_sql.storage.objects import ObjectStore, Standing, StoredObject
from omnigraph_sql.storage.roots import LocalRoot

_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)

_GROUPED: Final = ("data", "_indices")
"""Directories of a table in which files that belong together have a directory of their own."""


class LocalObjects(ObjectStore):
    """Objects as files."""

    def __init__(self, root: LocalRoot) -> None:
        super().__init__(root)
        self._directory = root.path

    def _path(self, name: str) -> Path:
        return self._directory / name

    @property
    def files(self) -> DatasetFiles:
        return LocalFiles(self._directory)

    def standing(self) -> Standing:
        try:
            if self._directory.is_file():
                return Standing.FILE
            return Standing.DIRECTORY if self._directory.exists() else Standing.NOTHING
        except OSError as error:  # no permission, or an invalid file name
            raise translate(error, str(self._directory)) from error

    def _unfit(self, name: str) -> str | None:
        remedy = "put the graph on a local file system with hard links"
        try:
            created_once = self.write_text_if_absent(name, "") and not self.write_text_if_absent(name, "")
        except Storage as error:
            cause = error.__cause__
            if not isinstance(cause, OSError) or cause.errno not in _NO_LINKS:
                raise
            self.write_text(name, "")  # raises if the directory is not writable
            return remedy
        return None if created_once else remedy

    def _translate(self, error: Exception, name: str) -> Exception | None:
        return translate(error, str(self._path(name))) if isinstance(error, OSError) else None

    def _read(self, name: str) -> bytes:
        return self._path(name).read_bytes()

    def _write(self, name: str, data: bytes) -> None:
        self._write_chunks(name, [data])

    def _create(self, name: str, data: bytes) -> bool:
        with self._temporary(name, [data]) as temporary:
            try:
                os.link(temporary, self._path(name))
            except FileExistsError:
                return False
            finally:
                os.unlink(temporary)
        durability.flush_directory(self._path(name).parent, self._directory, self.calls)
        return True

    def _exists(self, name: str) -> bool:
        return self._path(name).exists()

    def _has_prefix(self, name: str) -> bool:
        return self._path(name).is_dir()

    def _has_version(self, name: str) -> bool:
        try:
            with os.scandir(self._path(f"{name}/_versions")) as entries:
                return any(entry.name.endswith(".manifest") for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _rename(self, name: str, new_name: str) -> None:
        self._path(new_name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._path(name), self._path(new_name))

    def _delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._path(name).unlink()

    def _delete_entry(self, name: str, data: bytes | None) -> None:
        with suppress(FileNotFoundError):
            if data is None or self._read(name) == data:
                self._path(name).unlink()

    def _delete_prefix(self, name: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path(name))

    def _list(self, name: str) -> Iterable[str]:
        try:
            return [entry.name for entry in os.scandir(self._path(name)) if not temp_files.is_temporary(entry.name)]
        except FileNotFoundError:
            return []

    def _walk(self, name: str) -> Iterator[StoredObject]:
        for directory, _, names in os.walk(self._path(name)):
            for file in names:
                path = Path(directory) / file
                with suppress(FileNotFoundError):  # gone since it was listed
                    status = path.stat()
                    yield StoredObject(path.relative_to(self._directory).as_posix(), status.st_size, status.st_mtime)

    def _delete_all(self, names: list[str]) -> None:
        for name in names:
            self._delete(name)
        # The directory of an index, or of the blobs of a data file, goes with the last of them.
        for parent in {self._path(name).parent for name in names}:
            if parent.parent.name in _GROUPED:
                with suppress(OSError):
                    parent.rmdir()

    def _write_chunks(self, name: str, chunks: Iterable[bytes]) -> None:
        with self._temporary(name, chunks) as temporary:
            os.replace(temporary, self._path(name))
        durability.flush_directory(self._path(name).parent, self._directory, self.calls)

    def _open(self, name: str) -> Any:
        return pa.OSFile(str(self._path(name)))

    def discard_unfinished(self, *directories: str) -> None:
        for directory in map(self._path, directories):
            temp_files.discard(directory)
            with suppress(OSError):
                for entry in [entry for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)]:
                    temp_files.discard(Path(entry.path))

    @contextmanager
    def _temporary(self, name: str, chunks: Iterable[bytes]) -> Iterator[str]:
        """Yield the name of a flushed file with this content, locked by this process for the duration of the context."""
        with temp_files.new_file(self._path(name).parent) as (stream, temporary):
            stream.writelines(chunks)
            stream.flush()
            os.fsync(stream.fileno())
            yield temporary
