"""Decoding of source files, with errors that name the encoding and the position."""

from __future__ import annotations

import codecs
from dataclasses import replace

from omnigraph_compiler.arguments import checked
from omnigraph_compiler.diagnostics import CompileError, Diagnostic, Reporter
from omnigraph_compiler.source import Position, SourceText, Span

# UTF-32 comes first: its little-endian mark begins with that of UTF-16.
_OTHER_ENCODINGS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


@checked(data=(bytes, bytearray))
def decode_source(data: bytes) -> str:
    r"""Decode a `.pg` or `.gq` file from UTF-8. Other bytes raise a `CompileError` of class `parse`.

    A byte order mark and carriage returns stay in the text: both languages accept them.

    >>> decode_source(b"node Port { code: String @key }")
    'node Port { code: String @key }'
    >>> decode_source(b"node Port {\n  \xff")
    Traceback (most recent call last):
    omnigraph_compiler.diagnostics.CompileError: parse error: line 2, column 3: not valid UTF-8: byte 0xff at offset 14
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CompileError(_other_encoding(data) or _invalid(data, error)) from None


def _other_encoding(data: bytes) -> Diagnostic | None:
    for mark, name in _OTHER_ENCODINGS:
        if data.startswith(mark):
            return Diagnostic(
                "parse",
                f"the file is {name}, but it must be UTF-8",
                help=f"save it as UTF-8, for example with: iconv -f {name} -t UTF-8",
                span=Span(0, len(mark)),
                position=Position(1, 1),
            )
    return None


def _invalid(data: bytes, error: UnicodeDecodeError) -> Diagnostic:
    start = len(data[: error.start].decode("utf-8"))
    report = Reporter(SourceText(data.decode("utf-8", errors="replace")))
    text = f"not valid UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
    diagnostic = report.diagnostic("parse", text, (start, start + 1), help="save the file as UTF-8")
    # The reporter measured the replacement character; the span covers the bytes of the file.
    return replace(diagnostic, span=Span(error.start, error.end))
