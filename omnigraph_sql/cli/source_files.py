"""Reading schemas and queries from files, and the one place where the compiler's rejections become our errors."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from omnigraph_compiler.diagnostics import CompileError, Diagnostic, did_you_mean
from omnigraph_sql.cli.errors import Located
from omnigraph_sql.errors import BadRequest, Compile, NotFound, OmnigraphError, ResourceLimit

if TYPE_CHECKING:
    from omnigraph_compiler import Catalog

_LARGEST = 64 << 20
"""Bytes of a schema, a file of queries or of parameters."""


def read_bytes(path: str) -> bytes:
    """The content of a file; raises `NotFound` or `BadRequest` if it cannot be read."""
    with opened(path) as file:
        return _bounded(file, f"the file `{path}`")


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file opened for reading; errors are those of `read_bytes`."""
    with _readable(path):
        file = open(path, "rb")  # noqa: SIM115 (closed below; only opening it is guarded)
    with file:
        yield file


def require_file(path: str) -> None:
    """Raise what `read_bytes` would raise if there is no such file. Opens nothing: a pipe can be opened only once."""
    with _readable(path):
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise IsADirectoryError


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"the file `{path}` does not exist", what="file", name=path, hint=_similar_file(Path(path))) from None
    except IsADirectoryError:
        raise BadRequest(f"`{path}` is a directory, not a file") from None
    except OSError as error:
        raise BadRequest(f"the file `{path}` cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadRequest(f"`{path}` cannot be the name of a file", hint="give the path of a file") from None


def read_standard_input() -> bytes:
    """Everything on standard input."""
    if sys.stdin is None:
        raise BadRequest("standard input is closed")
    try:
        return _bounded(sys.stdin.buffer, "standard input")
    except OSError as error:
        raise BadRequest(f"standard input cannot be read: {error.strerror}") from None


def _bounded(file: BinaryIO, name: str) -> bytes:
    """The content of a file, up to a limit: devices may be endless."""
    try:
        data = file.read(_LARGEST + 1)
    except OSError as error:
        raise BadRequest(f"{name} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        message, hint = f"{name} is larger than {_LARGEST >> 20} MiB", "name a file with a schema, queries or parameters"
        raise ResourceLimit(message, resource="bytes of a source", limit=_LARGEST, actual=len(data), hint=hint)
    return data


def load_text(path: str) -> str:
    """The text of a source file."""
    from omnigraph_compiler import decode_source

    data = read_bytes(path)
    with rejections(path):
        return decode_source(data)


def load_catalog(path: str) -> Catalog:
    """The compiled schema in a file."""
    from omnigraph_compiler import compile_schema

    text = load_text(path)
    with rejections(path):
        return compile_schema(text)


@contextmanager
def rejections(path: str) -> Iterator[None]:
    """Translate rejections of the compiler into typed errors that name the file."""
    try:
        yield
    except CompileError as error:
        raise _translate(error, path) from error


@contextmanager
def located(path: str) -> Iterator[None]:
    """Add the file to errors that point into a source text."""
    try:
        yield
    except (Compile, BadRequest) as error:
        always = isinstance(error, Compile)
        error.diagnostics = tuple(
            Located(diagnostic, path)
            if isinstance(diagnostic, Diagnostic) and (always or diagnostic.position)
            else diagnostic
            for diagnostic in error.diagnostics
        )
        raise


def _translate(error: CompileError, path: str) -> OmnigraphError:
    diagnostics = (Located(error.diagnostic, path),)
    if error.error_class == "input":
        located = diagnostics if error.diagnostic.position else ()
        return BadRequest(error.message, diagnostics=located, code=error.code, hint=error.hint)
    return Compile(
        error.message,
        error_class=error.error_class,
        span=error.span,
        diagnostics=diagnostics,
        code=error.code,
        hint=error.hint,
    )


def _similar_file(path: Path) -> str | None:
    try:
        names = [name for name in os.listdir(path.parent) if Path(name).suffix == path.suffix]
    except OSError:
        return None
    return did_you_mean(path.name, names)
