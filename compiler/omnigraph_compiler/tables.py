"""Parser tables, built ahead of time.

Building the LALR tables of a grammar takes a few hundred milliseconds, loading them a few. The tables of both grammars are
therefore stored beside the grammars, with a fingerprint of the grammar and of the lark release that built them. If the
fingerprint does not match (another lark release, an edited grammar), the parser is built from the grammar.

`make grammar` rebuilds the tables after a change of a grammar; a test fails if they are out of date.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import zlib
from importlib import resources
from pathlib import Path

import lark

from omnigraph_compiler.lexer import LanguageLexer

GRAMMARS = ("schema", "query")


def load_parser(grammar: str, builder: lark.Transformer[lark.Token, object]) -> lark.Lark:
    """Return the parser of a grammar, loaded from its tables if their fingerprint matches."""
    text = _resource(grammar, "lark").read_text("utf-8")
    tables = _resource(grammar, "tables")
    if tables.is_file():
        mark, _, packed = tables.read_bytes().partition(b"\n")
        if mark == fingerprint(text):
            data = pickle.loads(zlib.decompress(packed))
            # As lark's own cache does. The fingerprint guarantees that this lark release wrote the data.
            parser: lark.Lark = lark.Lark.__new__(lark.Lark)._load(data, transformer=builder)
            return parser
    return build_parser(text, builder)


def build_parser(text: str, builder: lark.Transformer[lark.Token, object] | None = None) -> lark.Lark:
    """Build the parser of a grammar from its text."""
    return lark.Lark(text, parser="lalr", lexer=LanguageLexer, transformer=builder, maybe_placeholders=True)


def fingerprint(text: str) -> bytes:
    """Return the fingerprint that tables must have to be used for this grammar."""
    return hashlib.sha256(f"{lark.__version__}\n{text}".encode()).hexdigest().encode()


def write_tables() -> None:
    """Build the tables of both grammars and write them beside the grammars."""
    directory = Path(__file__).parent / "grammar"
    for grammar in GRAMMARS:
        text = _resource(grammar, "lark").read_text("utf-8")
        stream = io.BytesIO()
        build_parser(text).save(stream)
        (directory / f"{grammar}.tables").write_bytes(fingerprint(text) + b"\n" + zlib.compress(stream.getvalue(), 9))


def _resource(grammar: str, suffix: str) -> resources.abc.Traversable:
    return resources.files("omnigraph_compiler").joinpath(f"grammar/{grammar}.{suffix}")
