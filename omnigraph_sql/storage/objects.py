"""Small objects under a graph root: schema files, sidecars, claims, fork records, rows that wait.

One adapter, so that no other module opens files there. `storage/local.py` and `storage/s3.py` implement it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import OmnigraphError, Storage
from omnigraph_sql.storage.files import DatasetFiles
from omnigraph_sql.storage.roots import Root


class Standing(Enum):
    """The kind of thing at a root."""

    NOTHING = "nothing"
    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True)
class StoredObject:
    """An object as a listing shows it."""

    name: str
    size: int
    modified: float
    """When it was written, in seconds since 1970, by the clock of the store."""


class ObjectStore(ABC):
    """Objects by their name relative to the root. Counts its calls, so that tests can state what an operation costs."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.calls: Counter[str] = Counter()

    @property
    @abstractmethod
    def files(self) -> DatasetFiles:
        """Integrity and durability of files that Lance wrote to the store."""

    @abstractmethod
    def standing(self) -> Standing:
        """The kind of thing at the root."""

    def uri(self, name: str) -> str:
        """The address of an object or dataset."""
        return self.root.uri(name)

    def read_text(self, name: str) -> str:
        with self._guard("read", name):
            return self._read(name).decode("utf-8")

    def read_bytes(self, name: str) -> bytes:
        with self._guard("read", name):
            return self._read(name)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Replace an object as a whole."""
        with self._guard("write", name):
            self._write(name, data)

    def write_text(self, name: str, text: str) -> None:
        """Replace an object as a whole: a reader sees the old text or the new one, never a part."""
        failpoints.hit("storage.object_write")
        with self._guard("write", name):
            self._write(name, text.encode("utf-8"))

    def write_text_if_absent(self, name: str, text: str) -> bool:
        """Create an object; False when it exists already.

        The text must be its writer's own: where requests may be repeated, by it a creation is known whose answer was lost.
        """
        failpoints.hit("storage.object_write")
        with self._guard("write", name):
            return self._create(name, text.encode("utf-8"))

    # Entries: objects whose coming and going decides something. A request for an earlier one of a name changes no later one.

    def create_entry(self, name: str, text: str) -> bool:
        """Create an entry; False when there is one already. The text must be its writer's own."""
        return self.write_text_if_absent(name, text)

    def delete_entry(self, name: str, text: str | None) -> None:
        """Delete an entry if it has this text; any with None. An absent one is success."""
        failpoints.hit("storage.object_delete")
        with self._guard("delete", name):
            self._delete_entry(name, None if text is None else text.encode("utf-8"))

    def has_entry(self, name: str) -> bool:
        """True if there is an entry of this name."""
        return self.exists(name)

    def list_entries(self, directory: str) -> list[str]:
        """Sorted names of the entries in a directory; an absent directory is empty."""
        return self.list_dir(directory)

    def exists(self, name: str) -> bool:
        """True if there is an object of this name."""
        with self._guard("exists", name):
            return self._exists(name)

    def has_prefix(self, name: str) -> bool:
        """True if there is a directory of this name; an object store has it as long as something is in it."""
        with self._guard("exists", name):
            return self._has_prefix(name)

    def has_version(self, name: str) -> bool:
        """True if a dataset has a version. Directories alone are what a creation that was interrupted leaves."""
        with self._guard("exists", name):
            return self._has_version(name)

    def verify(self, directory: str) -> None:
        """Fail if the store lacks what claims and commits rest on: of two who create one object, one must fail.

        Tried with an object of its own in the directory.
        """
        name = f"{directory}/probe-{ulid.new()}"
        try:
            remedy = self._unfit(name)
        finally:
            with suppress(OmnigraphError):
                self.delete(name)
        if remedy is not None:
            text = f"the store of {self.root} cannot create an object only where there is none"
            raise Storage(text, storage_class="configuration", hint=remedy)

    @abstractmethod
    def _unfit(self, name: str) -> str | None:
        """The remedy for a store without atomic conditional writes; None if it has them."""

    def rename(self, name: str, new_name: str) -> None:
        with self._guard("rename", name):
            self._rename(name, new_name)

    def delete(self, name: str) -> None:
        """Delete an object; an absent one is success."""
        failpoints.hit("storage.object_delete")
        with self._guard("delete", name):
            self._delete(name)

    def delete_prefix(self, name: str) -> None:
        """Delete a directory with everything in it; an absent one is success."""
        failpoints.hit("storage.object_delete")
        with self._guard("delete", name):
            self._delete_prefix(name)

    def list_dir(self, name: str) -> list[str]:
        """Sorted names of the objects and directories in a directory; an absent directory is empty."""
        failpoints.hit("storage.object_list")
        with self._guard("list", name):
            return sorted(self._list(name))

    def walk(self, name: str) -> list[StoredObject]:
        """Everything in a directory and below it; an absent directory is empty."""
        failpoints.hit("storage.object_list")
        with self._guard("list", name):
            return list(self._walk(name))

    def delete_all(self, names: Iterable[str]) -> None:
        """Delete objects in this order; an absent one is success."""
        failpoints.hit("storage.object_delete")
        with self._guard("delete", ""):
            self._delete_all(list(names))

    @abstractmethod
    def discard_unfinished(self, *directories: str) -> None:
        """Remove what processes that died over an object left in these directories and in those right below them."""

    def write_chunks(self, name: str, chunks: Iterable[bytes]) -> None:
        """An object of any size."""
        with self._translated(name):
            self._write_chunks(name, chunks)

    def open(self, name: str) -> Any:
        """A `pyarrow` file over an object of any size, to be read from its beginning to its end."""
        with self._translated(name):
            return self._open(name)

    @contextmanager
    def _guard(self, call: str, name: str) -> Iterator[None]:
        self.calls[call] += 1
        with self._translated(name):
            yield

    @contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            translated = self._translate(error, name)
            if translated is None:
                raise
            raise translated from error

    @abstractmethod
    def _translate(self, error: Exception, name: str) -> Exception | None:
        """The error of our family; None for one that is none of the store's."""

    @abstractmethod
    def _read(self, name: str) -> bytes: ...

    @abstractmethod
    def _write(self, name: str, data: bytes) -> None: ...

    @abstractmethod
    def _create(self, name: str, data: bytes) -> bool: ...

    @abstractmethod
    def _exists(self, name: str) -> bool: ...

    @abstractmethod
    def _has_prefix(self, name: str) -> bool: ...

    @abstractmethod
    def _has_version(self, name: str) -> bool: ...

    @abstractmethod
    def _rename(self, name: str, new_name: str) -> None: ...

    @abstractmethod
    def _delete(self, name: str) -> None: ...

    @abstractmethod
    def _delete_entry(self, name: str, data: bytes | None) -> None: ...

    @abstractmethod
    def _delete_prefix(self, name: str) -> None: ...

    @abstractmethod
    def _list(self, name: str) -> Iterable[str]: ...

    @abstractmethod
    def _walk(self, name: str) -> Iterable[StoredObject]: ...

    @abstractmethod
    def _delete_all(self, names: list[str]) -> None: ...

    @abstractmethod
    def _write_chunks(self, name: str, chunks: Iterable[bytes]) -> None: ...

    @abstractmethod
    def _open(self, name: str) -> Any: ...
