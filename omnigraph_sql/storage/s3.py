"""Objects in an S3 bucket or in a compatible store.

The store must honour conditional writes: `If-None-Match: *` creates an object only if there is none, `If-Match` replaces it
only if it is still the one that was read. Listings and reads must see every write that was answered before.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import Configuration
from omnigraph_sql.storage.error_translation import is_remote, translate
from omnigraph_sql.storage.files import AcknowledgedFiles, DatasetFiles
from omnigraph_sql.storage.objects import ObjectStore, Standing, StoredObject
from omnigraph_sql.storage.roots import RETRIES, RETRY_SECONDS, S3Root

if TYPE_CHECKING:
    from obstore.store import S3Store

_DELETES: Final = 1000
_MARK_SIZE: Final = len('{"deleted": ""}') + 26
"""The size of a tombstone of a deleted entry. Entries are larger."""


@dataclass(frozen=True)
class Tagged:
    """An object and its entity tag, which changes with each of its states."""

    text: str
    tag: str
    modified: datetime
    """The time of its last write, by the clock of the store."""


class S3Objects(ObjectStore):
    """Objects under a prefix of a bucket."""

    def __init__(self, root: S3Root) -> None:
        super().__init__(root)
        self._store = _client(root)
        import obstore

        self._api = obstore

    # Conditional writes

    def read_tagged(self, name: str) -> Tagged | None:
        """Return an object with its tag; None if it does not exist."""
        with self._guard("read", name):
            try:
                answer = self._api.get(self._store, name)
                text = bytes(answer.bytes()).decode("utf-8")
            except FileNotFoundError as error:
                if is_remote(error):
                    raise
                return None
            return Tagged(text, answer.meta["e_tag"] or "", answer.meta["last_modified"])

    def create_tagged(self, name: str, text: str) -> str | None:
        """Create an object; return its tag, or None if another one exists already."""
        with self._guard("write", name):
            try:
                return self._api.put(self._store, name, text.encode("utf-8"), mode="create")["e_tag"] or ""
            except self._api.exceptions.AlreadyExistsError:
                return self._tag_of(name, text)

    def replace_tagged(self, name: str, text: str, tag: str) -> str | None:
        """Replace an object that still has this tag; return the new tag, or None if it was changed or deleted."""
        with self._guard("write", name):
            try:
                return self._api.put(self._store, name, text.encode("utf-8"), mode={"e_tag": tag})["e_tag"] or ""
            except self._api.exceptions.PreconditionError:
                return self._tag_of(name, text)
            except FileNotFoundError as error:
                if is_remote(error):
                    raise
                return None

    def _tag_of(self, name: str, text: str) -> str | None:
        """Return the tag of an object that has this text; None if it has another one.

        A conditional write whose answer was lost is sent again, and then refused: only the text tells that it was done.
        """
        stored = self.read_tagged(name)
        return stored.tag if stored is not None and stored.text == text else None

    def put(self, name: str, text: str) -> None:
        """Write an object, replacing an existing one."""
        with self._guard("write", name):
            self._write(name, text.encode("utf-8"))

    def discard(self, name: str) -> None:
        """Delete an object; succeed if it does not exist."""
        with self._guard("delete", name):
            self._delete(name)

    def names_below(self, name: str) -> list[str]:
        """Return the full names of all objects in a directory."""
        with self._guard("list", name):
            return sorted(self._below(name))

    # Entries. A deletion that arrives late must not meet a later entry of its name, and stores do not delete on conditions:
    # a deleted entry is replaced by a tombstone, on the condition that it is unchanged. Tombstones stay; their size
    # distinguishes them from entries.

    def create_entry(self, name: str, text: str) -> bool:
        """Create an entry; return False if it exists already. The text must be unique to its writer."""
        if self.write_text_if_absent(name, text):
            return True
        with self._guard("exists", name):
            state = self._state_of(name)
        if state is None:
            return self.write_text_if_absent(name, text)
        return state["size"] == _MARK_SIZE and self.replace_tagged(name, text, state["e_tag"] or "") is not None

    def has_entry(self, name: str) -> bool:
        """True if the entry exists."""
        with self._guard("exists", name):
            state = self._state_of(name)
        return state is not None and state["size"] != _MARK_SIZE

    def list_entries(self, directory: str) -> list[str]:
        """Return the sorted names of the entries in a directory; none if it does not exist."""
        failpoints.hit("storage.object_list")
        with self._guard("list", directory):
            objects = self._api.list_with_delimiter(self._store, f"{directory}/")["objects"]
            return sorted(entry["path"].rpartition("/")[2] for entry in objects if entry["size"] != _MARK_SIZE)

    def _delete_entry(self, name: str, data: bytes | None) -> None:
        try:
            stored = self._api.get(self._store, name)
            content = bytes(stored.bytes())
        except FileNotFoundError as error:
            if is_remote(error):
                raise
            return
        if len(content) == _MARK_SIZE or data not in (None, content):
            return
        # Refused if another writer was faster, or if the answer was lost: either way this entry has changed.
        self.replace_tagged(name, json.dumps({"deleted": ulid.new()}), stored.meta["e_tag"] or "")

    def _state_of(self, name: str) -> Any:
        try:
            return self._api.head(self._store, name)
        except FileNotFoundError as error:
            if is_remote(error):
                raise
            return None

    # The adapter

    @property
    def files(self) -> DatasetFiles:
        return AcknowledgedFiles()

    def standing(self) -> Standing:
        with self._guard("exists", ""):
            is_directory = any(True for page in self._api.list(self._store) for _ in page)
        return Standing.DIRECTORY if is_directory else Standing.NOTHING

    def _unfit(self, name: str) -> str | None:
        first, second = self.create_tagged(name, "first"), self.create_tagged(name, "second")
        ignored = first is None or second is not None or self.replace_tagged(name, "third", '"0"') is not None
        return "use a store that honours If-None-Match and If-Match in conditional writes" if ignored else None

    def _translate(self, error: Exception, name: str) -> Exception | None:
        if isinstance(error, OSError | self._api.exceptions.BaseError):
            return translate(error, self.uri(name))
        return None

    def _read(self, name: str) -> bytes:
        return bytes(self._api.get(self._store, name).bytes())

    def _write(self, name: str, data: bytes) -> None:
        self._api.put(self._store, name, data, use_multipart=False)

    def _create(self, name: str, data: bytes) -> bool:
        try:
            self._api.put(self._store, name, data, mode="create")
        except self._api.exceptions.AlreadyExistsError:
            return self._has(name, data)
        return True

    def _has(self, name: str, data: bytes) -> bool:
        """True if a rejected creation had succeeded before, by a request whose answer was lost."""
        try:
            return self._read(name) == data
        except FileNotFoundError as error:
            if is_remote(error):
                raise
            return False

    def _exists(self, name: str) -> bool:
        return self._state_of(name) is not None

    def _has_prefix(self, name: str) -> bool:
        return any(True for _ in self._below(name))

    def _has_version(self, name: str) -> bool:
        return any(path.endswith(".manifest") for path in self._below(f"{name}/_versions"))

    def _rename(self, name: str, new_name: str) -> None:
        self._api.rename(self._store, name, new_name)

    def _delete(self, name: str) -> None:
        with suppress(FileNotFoundError):  # S3 accepts the deletion of an absent object, some compatible stores do not
            self._api.delete(self._store, name)

    def _delete_prefix(self, name: str) -> None:
        self._delete_all(list(self._below(name)))

    def _delete_all(self, names: list[str]) -> None:
        for start in range(0, len(names), _DELETES):
            with suppress(FileNotFoundError):
                self._api.delete(self._store, names[start : start + _DELETES])

    def _walk(self, name: str) -> Iterator[StoredObject]:
        for page in self._api.list(self._store, f"{name}/"):
            for entry in page:
                yield StoredObject(entry["path"], entry["size"], entry["last_modified"].timestamp())

    def _below(self, name: str) -> Iterator[str]:
        for page in self._api.list(self._store, f"{name}/"):
            yield from (entry["path"] for entry in page)

    def discard_unfinished(self, *directories: str) -> None:
        """Do nothing: objects appear complete, and interrupted multipart uploads have no names."""

    def _list(self, name: str) -> Iterable[str]:
        answer = self._api.list_with_delimiter(self._store, f"{name}/")
        paths = [*(entry["path"] for entry in answer["objects"]), *answer["common_prefixes"]]
        return [path.rstrip("/").rpartition("/")[2] for path in paths]

    def _write_chunks(self, name: str, chunks: Iterable[bytes]) -> None:
        self._api.put(self._store, name, iter(chunks))

    def _open(self, name: str) -> Any:
        return pa.PythonFile(io.BufferedReader(_Remote(self._api.open_reader(self._store, name), self, name)), mode="r")


class _Remote(io.RawIOBase):
    """An object as a file of the standard library; failures are errors of this package."""

    def __init__(self, reader: Any, objects: S3Objects, name: str) -> None:
        self._reader = reader
        self._objects = objects
        self._name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._objects._translated(self._name):
            data = bytes(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def _client(root: S3Root) -> S3Store:
    try:
        from obstore.store import S3Store
    except ImportError:
        text = f"{root} needs the package obstore, which is not installed"
        raise Configuration(text, what="obstore", hint='run pip install "omnigraph-sql[s3]"') from None
    settings = root.settings
    config: dict[str, Any] = {
        "region": settings.region,
        "access_key_id": settings.access_key_id,
        "secret_access_key": settings.secret_access_key,
        "token": settings.session_token,
        "endpoint": root.endpoint,
        "virtual_hosted_style_request": not settings.path_style,
    }
    return S3Store(
        root.bucket,
        prefix=root.prefix or None,
        config={name: value for name, value in config.items() if value is not None},  # type: ignore[arg-type]
        client_options={"allow_http": settings.allow_http},
        retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
    )
