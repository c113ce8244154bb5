"""From bytes to text: what is accepted, and where the first wrong byte is shown."""

import pytest

from omnigraph_compiler import CompileError, decode_source
from omnigraph_compiler.source import Position, Span


@pytest.mark.parametrize("text", ["", "node A {}", "\ufeffnode A {}", "a\r\nb", "é ⚓ 🚢", "\x00"])
def test_utf_8_is_taken_as_it_is(text: str) -> None:
    assert decode_source(text.encode()) == text


@pytest.mark.parametrize(
    ("data", "text", "span", "position"),
    [
        (b"\x80", "byte 0x80 at offset 0", Span(0, 1), Position(1, 1)),
        (b"node A {\n\xff", "byte 0xff at offset 9", Span(9, 10), Position(2, 1)),
        ("é⚓".encode() + b"\xc3(", "byte 0xc3 at offset 5", Span(5, 6), Position(1, 3)),
        (b"ab\xe2\x9a", "byte 0xe2 at offset 2", Span(2, 4), Position(1, 3)),
        (b"\xef\xbb\xbfab\xff", "byte 0xff at offset 5", Span(5, 6), Position(1, 3)),
        (b"a\xed\xa0\x80", "byte 0xed at offset 1", Span(1, 2), Position(1, 2)),
        (b"a\xc0\x80", "byte 0xc0 at offset 1", Span(1, 2), Position(1, 2)),
    ],
    ids=["first byte", "second line", "after wide characters", "cut short", "after a mark", "surrogate", "overlong"],
)
def test_the_first_wrong_byte_is_shown(data: bytes, text: str, span: Span, position: Position) -> None:
    with pytest.raises(CompileError) as caught:
        decode_source(data)

    diagnostic = caught.value.diagnostic
    assert diagnostic.error_class == "parse"
    assert diagnostic.text == f"not valid UTF-8: {text}"
    assert (diagnostic.span, diagnostic.position, diagnostic.width) == (span, position, 1)
    assert diagnostic.source_line is not None
    assert diagnostic.source_line[position.column - 1] == "\ufffd"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_another_unicode_encoding_is_named(encoding: str) -> None:
    with pytest.raises(CompileError) as caught:
        decode_source("\ufeffnode A {}".encode(encoding))

    diagnostic = caught.value.diagnostic
    assert diagnostic.text == f"the file is {encoding[:6].upper()}, but it must be UTF-8"
    assert diagnostic.position == Position(1, 1)
    assert diagnostic.help is not None
    assert "iconv" in diagnostic.help
