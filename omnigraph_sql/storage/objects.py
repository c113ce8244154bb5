"""Small text objects under a graph root: schema files, sidecars, claims, fork records.

One adapter, so that no other module opens files there. A local write goes to a temporary file in the same directory, is
flushed to disk and then renamed, so a reader sees the old text or the new one, never a part.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from omnigraph_sql import failpoints
from omnigraph_sql.errors import BadRequest, NotFound, Storage

_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT)
FSYNC = "OMNIGRAPH_FSYNC"
_OTHER_KIND = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST)


def resolve_root(uri: str | os.PathLike[str]) -> Path:
    """The local directory a graph address means. Symbolic links of existing ancestors are resolved."""
    text = os.fspath(uri)
    scheme = urlsplit(text).scheme if "://" in text else ""
    if scheme in ("http", "https"):
        raise BadRequest(f"{text} is a server, not a graph", hint="name a server with --server")
    if scheme == "file":
        text = unquote(urlsplit(text).path)
    elif scheme:
        raise BadRequest(f"graphs on `{scheme}://` are not supported by this release", hint="use a local directory")
    if not text:
        raise BadRequest("the address of the graph is empty", hint="give a directory")
    return Path(os.path.realpath(os.path.abspath(os.path.expanduser(text))))


class ObjectStore:
    """Text objects by their name relative to the root. Counts its calls, so that tests can state what an operation costs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: Counter[str] = Counter()

    def path(self, name: str) -> Path:
        return self.root / name

    def read_text(self, name: str) -> str:
        with self._guard("read", name):
            return self.path(name).read_text("utf-8")

    def write_text(self, name: str, text: str) -> None:
        """Replace an object as a whole."""
        failpoints.hit("storage.object_write")
        with self._guard("write", name):
            temporary = self._temporary(name, text)
            os.replace(temporary, self.path(name))
            self._flush_directory(name)

    def write_text_if_absent(self, name: str, text: str) -> bool:
        """Create an object; False when it exists already."""
        failpoints.hit("storage.object_write")
        with self._guard("write", name):
            temporary = self._temporary(name, text)
            try:
                os.link(temporary, self.path(name))
            except FileExistsError:
                return False
            finally:
                os.unlink(temporary)
            self._flush_directory(name)
            return True

    def exists(self, name: str) -> bool:
        with self._guard("exists", name):
            return self.path(name).exists()

    def has_version(self, name: str) -> bool:
        """Whether a dataset has a version. Directories alone are what a creation that was interrupted leaves."""
        with self._guard("exists", name):
            try:
                with os.scandir(self.path(f"{name}/_versions")) as entries:
                    return any(entry.name.endswith(".manifest") for entry in entries)
            except FileNotFoundError:
                return False

    def rename(self, name: str, new_name: str) -> None:
        directory = self.path(new_name).parent
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise translate(error, str(directory)) from error
        with self._guard("rename", name):
            os.replace(self.path(name), self.path(new_name))

    def delete(self, name: str) -> None:
        """Delete an object; an absent one is success."""
        failpoints.hit("storage.object_delete")
        with self._guard("delete", name), suppress(FileNotFoundError):
            self.path(name).unlink()

    def delete_prefix(self, name: str) -> None:
        """Delete a directory with everything in it; an absent one is success."""
        failpoints.hit("storage.object_delete")
        with self._guard("delete", name), suppress(FileNotFoundError):
            shutil.rmtree(self.path(name))

    def list_dir(self, name: str) -> list[str]:
        """Sorted names of the objects in a directory; an absent directory is empty."""
        failpoints.hit("storage.object_list")
        with self._guard("list", name):
            try:
                return sorted(entry.name for entry in os.scandir(self.path(name)) if not entry.name.startswith(".tmp-"))
            except FileNotFoundError:
                return []

    def _flush_directory(self, name: str) -> None:
        """The name of a new object on disk, if that is asked for; its text is there already."""
        if os.environ.get(FSYNC) == "1":
            descriptor = os.open(self.path(name).parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self.calls["fsync"] += 1

    def _temporary(self, name: str, text: str) -> str:
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        return temporary

    @contextmanager
    def _guard(self, call: str, name: str) -> Iterator[None]:
        self.calls[call] += 1
        try:
            yield
        except OSError as error:
            raise translate(error, str(self.path(name))) from error


def translate(error: OSError, path: str) -> Exception:
    """What an operating system error means to a caller."""
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{path} does not exist", what="object", name=path)
    if error.errno in _FULL:
        return Storage(f"{path}: the disk is full", storage_class="permanent", hint="free some space and try again")
    if error.errno == errno.EFBIG:
        hint = "raise the limit of the process (`ulimit -f`) and try again"
        return Storage(f"{path}: the file would be larger than is allowed", storage_class="permanent", hint=hint)
    if error.errno in _READ_ONLY:
        message = f"{path} cannot be read or written: {error.strerror}"
        hint = "check the owner and mode of the directory; reading needs no right to write with read_only"
        return Storage(message, storage_class="configuration", hint=hint)
    if error.errno in _OTHER_KIND:
        hint = "something else stands in the place of a file or directory of the graph: move it away"
        return Storage(f"{path}: {error.strerror}", storage_class="configuration", hint=hint)
    return Storage(f"{path}: {error.strerror or error}", storage_class="unknown", hint="look at the disk, then try again")
