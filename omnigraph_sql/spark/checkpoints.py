"""Checkpoints of streams. They hold the id of the streaming query, which identifies its batches."""

from __future__ import annotations

import json
import re
from pathlib import Path

from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.roots import LocalRoot, Root, resolve_root

_METADATA = "metadata"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def query_of(checkpoint: str | None) -> str:
    """Return the id of the query that a checkpoint belongs to.

    Spark writes the id before the first batch. It survives a restart of the query and a move of the checkpoint. A new
    checkpoint in the same place has another id.
    """
    if checkpoint is None:
        raise _no_query_id("the writer of the stream was given no checkpoint")
    try:
        return str(json.loads(open_objects(_root(checkpoint)).read_text(_METADATA))["id"])
    except (OmnigraphError, ValueError, KeyError, TypeError) as error:
        raise _no_query_id(f"the id of the query cannot be read from its checkpoint {checkpoint}") from error


def _no_query_id(text: str) -> BadRequest:
    hint = "set the option `query_id` to a name that is unique to the query and stays the same when it is restarted"
    return BadRequest(text, hint=hint)


def _root(checkpoint: str) -> Root:
    """Resolve the address of a directory as Hadoop does: it does not decode `%20`, and has its own schemes for S3."""
    scheme = _SCHEME.match(checkpoint)
    match scheme[1].lower() if scheme else "":
        case "":
            return LocalRoot(Path(checkpoint).absolute())
        case "file":
            return LocalRoot(Path("/", re.sub(r"^//[^/]*", "", checkpoint[5:]).lstrip("/")))
        case "s3" | "s3a" | "s3n":
            return resolve_root("s3:" + checkpoint.partition(":")[2])
        case other:
            raise BadRequest(f"addresses that begin with `{other}:` cannot be read here")
