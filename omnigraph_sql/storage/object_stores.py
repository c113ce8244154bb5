"""The object store of a root."""

from __future__ import annotations

from omnigraph_sql.storage.local import LocalObjects
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.roots import LocalRoot, Root
from omnigraph_sql.storage.s3 import S3Objects


def open_objects(root: Root) -> ObjectStore:
    """The adapter for the kind of store that holds the root."""
    return LocalObjects(root) if isinstance(root, LocalRoot) else S3Objects(root)
