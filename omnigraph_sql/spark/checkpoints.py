"""Checkpoints of streams: they hold the id that Spark gave the query, by which its batches are known."""

from __future__ import annotations

import json
import re
from pathlib import Path

from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.storage.opening import open_objects
from omnigraph_sql.storage.roots import LocalRoot, Root, resolve_root

_METADATA = "metadata"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def query_of(checkpoint: str | None) -> str:
    """The id of the query that a checkpoint belongs to.

    Spark writes it before the first batch. It stays when the query is started again, wherever the checkpoint is, and is
    another for a checkpoint that was made anew in the same place.
    """
    if checkpoint is None:
        raise _nameless("where the checkpoint of the stream is was not said to its writer")
    try:
        return str(json.loads(open_objects(_root(checkpoint)).read_text(_METADATA))["id"])
    except (OmnigraphError, ValueError, KeyError, TypeError) as error:
        raise _nameless(f"the id of the query cannot be read from its checkpoint {checkpoint}") from error


def _nameless(text: str) -> BadRequest:
    hint = "set the option `query_id` to a name that stays the same when the query is started again, and is used by it alone"
    return BadRequest(text, hint=hint)


def _root(checkpoint: str) -> Root:
    """What the address of a directory means; it is Hadoop's, which does not decode `%20` and has names of its own for S3."""
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
