"""Small objects under a graph root: schema files, sidecars, claims, fork records, rows that wait.

One adapter, so that no other module opens files there. `storage/local.py` and `storage/s3.py` implement it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from omnigraph_sql import failpoints
from omnigraph_sql.storage.roots import Root


class ObjectStore(ABC):
    """Objects by their name relative to the root. Counts its calls, so that tests can state what an operation costs."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.calls: Counter[str] = Counter()

    def uri(self, name: str) -> str:
        """The address of an object or dataset."""
        return self.root.uri(name)

    def read_text(self, name: str) -> str:
        with self._guard("read", name):
            return self._read(name).decode("utf-8")

    def write_text(self, name: str, text: str) -> None:
        """Replace an object as a whole: a reader sees the old text or the new one, never a part."""
        failpoints.hit("storage.object_write")
        with self._guard("write", name):
            self._write(name, text.encode("utf-8"))

    def write_text_if_absent(self, name: str, text: str) -> bool:
        """Create an object; False when it exists already."""
        failpoints.hit("storage.object_write")
        with self._guard("write", name):
            return self._create(name, text.encode("utf-8"))

    def exists(self, name: str) -> bool:
        """Whether there is an object of this name."""
        with self._guard("exists", name):
            return self._exists(name)

    def has_prefix(self, name: str) -> bool:
        """Whether there is a directory of this name; an object store has it as long as something is in it."""
        with self._guard("exists", name):
            return self._has_prefix(name)

    @abstractmethod
    def verify(self, name: str) -> None:
        """Fail if the store lacks what graphs rely on. The object must exist and be the caller's; its text may be lost."""

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
            known = self._translate(error, name)
            if known is None:
                raise
            raise known from error

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
    def _rename(self, name: str, new_name: str) -> None: ...

    @abstractmethod
    def _delete(self, name: str) -> None: ...

    @abstractmethod
    def _delete_prefix(self, name: str) -> None: ...

    @abstractmethod
    def _list(self, name: str) -> Iterable[str]: ...

    @abstractmethod
    def _write_chunks(self, name: str, chunks: Iterable[bytes]) -> None: ...

    @abstractmethod
    def _open(self, name: str) -> Any: ...
