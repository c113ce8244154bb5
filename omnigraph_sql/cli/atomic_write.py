"""Atomic replacement of files: a reader sees the old content or the new, never a part of either."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from omnigraph_sql.cli.arrow_import import import_arrow
from omnigraph_sql.errors import BadRequest

_LABEL = "the file `{path}` cannot be written"


def replace_content(path: str, data: bytes) -> None:
    """Replace the content of a file; mode and owner stay, and a symbolic link keeps its target."""
    with replacement(path) as file:
        file.write(data)


@contextmanager
def replacement(path: str) -> Iterator[IO[bytes]]:
    """A stream that becomes the content of a file when the block ends without an error.

    Devices and pipes are written into.
    """
    import_arrow()  # the room of the files imports Lance
    from omnigraph_sql.storage.output_files import OutputFile, check_destination, printable

    destination = check_destination(path, _LABEL)
    try:
        output = OutputFile(destination)
        try:
            yield output.file if output.stream is None else output.stream
            if output.stream is None:
                output.put()
            else:
                output.stream.flush()
        finally:
            output.discard()
    except OSError as error:
        raise BadRequest(f"{_LABEL.replace('{path}', printable(path))}: {error.strerror or error}") from error
