"""Where the graphs of tests live: directories or, with `--store s3`, prefixes of a bucket of the tests' own server.

A test that looks into a graph past the engine works on a `Place`: a path, or a prefix that answers like one.
"""

from __future__ import annotations

import datetime
import fnmatch
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from obstore.store import S3Store

BUCKET = "graphs"
patience = 1
"""How much longer operations take in the store of this run; a failpoint that sleeps, sleeps as much longer."""
_SERVER = Path(__file__).parent / "s3" / "server.py"


@contextmanager
def s3_server(*behaviour: str) -> Iterator[str]:
    """The endpoint of an S3 with one bucket."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(_SERVER), *behaviour], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"
            request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
            with urllib.request.urlopen(request, timeout=30):
                pass
            yield endpoint
        finally:
            process.stdin.close()


def patient(rule: str) -> str:
    """A rule for failpoints, made to last in the store of this run."""
    return re.sub(r"sleep\((\d+)\)", lambda found: f"sleep({int(found[1]) * patience})", rule)


def repetitions(count: int) -> int:
    """How often to repeat what writes, in the store of this run: less often where every write takes longer."""
    return max(count // patience, min(count, 5))


def settings(endpoint: str) -> dict[str, str]:
    """The environment in which graphs on the server are reached."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_REGION": "us-east-1",
    }


@total_ordering
@dataclass(frozen=True)
class S3Place:
    """A name in the bucket, with as much of `pathlib` as tests use."""

    endpoint: str
    key: str

    def __str__(self) -> str:
        return f"s3://{BUCKET}/{self.key}"

    def __fspath__(self) -> str:
        return str(self)

    def __truediv__(self, name: str) -> S3Place:
        return S3Place(self.endpoint, f"{self.key}/{name}")

    def __lt__(self, other: S3Place) -> bool:
        return self.key < other.key

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.key.split("/"))

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    @property
    def parent(self) -> S3Place:
        return S3Place(self.endpoint, self.key.rpartition("/")[0])

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        return any(each.key == self.key for each in self.parent._objects())

    def is_dir(self) -> bool:
        return bool(self._objects())

    def read_bytes(self) -> bytes:
        return bytes(_store(self.endpoint).get(self.key).bytes())

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        _store(self.endpoint).put(self.key, data)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        self.write_bytes(text.encode(encoding))

    def mkdir(self, **_: Any) -> None:
        """A prefix is there as soon as something is in it."""

    def unlink(self) -> None:
        _store(self.endpoint).delete(self.key)

    def rglob(self, pattern: str) -> list[S3Place]:
        """Everything below, directories included, whose name matches."""
        found: set[S3Place] = set()
        for each in self._objects():
            while each != self:
                found.add(each)
                each = each.parent  # noqa: PLW2901
        return sorted(each for each in found if fnmatch.fnmatchcase(each.name, pattern))

    def glob(self, pattern: str) -> list[S3Place]:
        return [each for each in self.rglob(pattern) if each.parent == self]

    def iterdir(self) -> list[S3Place]:
        return self.glob("*")

    def stat(self) -> Any:
        modified: datetime.datetime = _store(self.endpoint).head(self.key)["last_modified"]
        return _Stat(int(modified.timestamp() * 1e9))

    def _objects(self) -> list[S3Place]:
        pages = _store(self.endpoint).list(f"{self.key}/")
        return [S3Place(self.endpoint, entry["path"]) for page in pages for entry in page]


@dataclass(frozen=True)
class _Stat:
    st_mtime_ns: int


Place: TypeAlias = Path | S3Place


@lru_cache
def _store(endpoint: str) -> S3Store:
    from obstore.store import S3Store

    return S3Store(
        BUCKET,
        config={"endpoint": endpoint, "access_key_id": "tests", "secret_access_key": "tests", "region": "us-east-1"},
        client_options={"allow_http": True},
    )


def copy(source: Place, target: Place) -> Place:
    """A copy of a graph that nobody uses."""
    if isinstance(source, Path):
        return Path(shutil.copytree(source, target))
    assert isinstance(target, S3Place)
    for each in source._objects():
        _store(source.endpoint).copy(each.key, target.key + each.key.removeprefix(source.key))
    return target


def remove(place: Place) -> None:
    """Remove a graph; an absent one is success."""
    if isinstance(place, Path):
        shutil.rmtree(place, ignore_errors=True)
    elif objects := place._objects():
        _store(place.endpoint).delete([each.key for each in objects])
