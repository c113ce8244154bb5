"""Reading schemas and queries from files, and the one place where the compiler's rejections become our errors."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from omnigraph_compiler import Catalog, CompileError, Diagnostic, compile_schema, decode_source
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.cli.failures import Located
from omnigraph_sql.errors import BadRequest, Compile, NotFound, OmnigraphError


def read_bytes(path: str) -> bytes:
    """The content of a file; raises `NotFound` or `BadRequest`, which say what is wrong with it."""
    with _readable(path):
        return Path(path).read_bytes()


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file to read; what is wrong with opening it is said as by `read_bytes`."""
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


def read_standard_input() -> bytes:
    """Everything on standard input."""
    if sys.stdin is None:
        raise BadRequest("standard input is closed")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise BadRequest(f"standard input cannot be read: {error.strerror}") from None


def load_text(path: str) -> str:
    """The text of a source file."""
    data = read_bytes(path)
    with rejections(path):
        return decode_source(data)


def load_catalog(path: str) -> Catalog:
    """The compiled schema in a file."""
    text = load_text(path)
    with rejections(path):
        return compile_schema(text)


@contextmanager
def rejections(path: str) -> Iterator[None]:
    """Whatever the compiler rejects inside is raised as an error of our family that knows its file."""
    try:
        yield
    except CompileError as error:
        raise _translate(error, path) from error


@contextmanager
def located(path: str) -> Iterator[None]:
    """Errors of a graph that point into a source text learn the file it came from."""
    try:
        yield
    except (Compile, BadRequest) as error:
        always = isinstance(error, Compile)
        error.diagnostics = tuple(
            Located(each, path) if isinstance(each, Diagnostic) and (always or each.position) else each
            for each in error.diagnostics
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
