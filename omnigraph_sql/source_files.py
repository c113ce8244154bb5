"""Source files: schemas and queries."""

from __future__ import annotations

from pathlib import Path

from omnigraph_sql.errors import BadRequest, NotFound


def read_source(path: Path) -> str:
    """Return the text of a file. Raises `NotFound`, or `BadRequest` for an unreadable file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        hint = "look at the path; relative ones begin in the working directory"
        raise NotFound(f"the file `{path}` does not exist", what="file", name=str(path), hint=hint) from None
    except OSError as error:
        raise BadRequest(
            f"the file `{path}` cannot be read: {error.strerror}", hint="give a file that can be read"
        ) from None
    except UnicodeDecodeError:
        raise BadRequest(f"the file `{path}` is not UTF-8", hint="save it as UTF-8") from None
