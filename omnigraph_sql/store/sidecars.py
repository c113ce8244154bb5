"""The sidecars of a graph: what operations are about to do, written down before they touch the first table.

A sidecar holds the whole publish, so that recovery can either finish the operation after a crash or undo it.
A malformed or undecidable sidecar is quarantined: it is kept and blocks no writer.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import NotFound, Storage
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.store.sidecar_format import DIRECTORY, Sidecar

QUARANTINE: Final = f"{DIRECTORY}/quarantine"
_log = logging.getLogger("omnigraph_sql.recovery")


class Sidecars:
    """The recovery directory of a graph."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def write(self, sidecar: Sidecar) -> None:
        failpoints.hit("write.sidecar_write")
        self._objects.write_text(sidecar.name, sidecar.to_json())

    def exists(self, sidecar: Sidecar) -> bool:
        return self._objects.exists(sidecar.name)

    def remove(self, operation_id: str) -> None:
        self._objects.delete(_name(operation_id))

    def pending(self) -> list[str]:
        """Operation ids with a sidecar, oldest first. A failure to list is an error, never "none"."""
        names = (name.removesuffix(".json") for name in self._objects.list_dir(DIRECTORY) if name.endswith(".json"))
        return [name for name in names if ulid.is_ulid(name)]

    def quarantined(self) -> list[str]:
        """The quarantined files."""
        return self._objects.list_dir(QUARANTINE)

    def quarantined_operations(self) -> set[str]:
        """The operations whose sidecars are in quarantine."""
        return {name.partition(".")[0] for name in self.quarantined()}

    def read(self, operation_id: str) -> Sidecar | None:
        """A pending sidecar; None when it is gone. A malformed one is quarantined."""
        name = _name(operation_id)
        try:
            text = self._objects.read_text(name)
        except NotFound:
            return None
        except UnicodeDecodeError:
            text = ""
        except Storage:
            if not self._objects.has_prefix(name):
                raise
            text = ""  # a directory is no sidecar of ours either
        try:
            sidecar = Sidecar.from_json(text)
            if sidecar.operation_id != operation_id:
                raise ValueError(f"it is that of operation {sidecar.operation_id}")
        except Exception as error:
            self.quarantine(operation_id, str(error))
            return None
        return sidecar

    def quarantine(self, operation_id: str, reason: str) -> None:
        """Quarantine a sidecar. It is never deleted and replaces none that is in quarantine."""
        taken, name, count = set(self.quarantined()), f"{operation_id}.json", 1
        while name in taken:
            name, count = f"{operation_id}.{count}.json", count + 1
        with suppress(NotFound):  # another process has just moved it
            self._objects.rename(_name(operation_id), f"{QUARANTINE}/{name}")
            text = "the note of operation %s was put aside as %s/%s: %s; tables that the operation moved refuse writes"
            _log.warning(text, operation_id, QUARANTINE, name, ascii(reason))


def _name(operation_id: str) -> str:
    return f"{DIRECTORY}/{operation_id}.json"
