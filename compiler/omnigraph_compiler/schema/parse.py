"""Schema text to syntax tree."""

from __future__ import annotations

from typing import Any

from lark import Token

from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_compiler.lark_driver import LanguageParser, Rejection, SyntaxBuilder, span
from omnigraph_compiler.lexer import unquote
from omnigraph_compiler.schema import ast
from omnigraph_compiler.types import BASE_TYPES, MAX_VECTOR_DIMENSION, PropType, foreign_type_help


def parse_schema(text: str) -> ast.Schema:
    """Parse a `.pg` file. The first syntax error raises a `CompileError` of class `parse`."""
    schema: ast.Schema = _PARSER.parse(text)
    return schema


def _name(token: Token) -> ast.Name:
    return ast.Name(str(token), span(token))


class _Builder(SyntaxBuilder):
    """Callbacks of the grammar's rules; each receives the rule's children."""

    def start(self, declarations: list[Any]) -> ast.Schema:
        return ast.Schema(tuple(declarations))

    def interface(self, parts: list[Any]) -> ast.Interface:
        keyword, name, brace, *members, end = parts
        return ast.Interface(_name(name), _body(brace, members, end), (keyword.start_pos, end.end_pos))

    def node(self, parts: list[Any]) -> ast.Node:
        keyword, name, *rest = parts
        brace = next(i for i, part in enumerate(rest) if isinstance(part, Token))
        *decorations, implements = rest[:brace]
        *members, end = rest[brace + 1 :]
        body = _body(rest[brace], members, end)
        at = (keyword.start_pos, end.end_pos)
        return ast.Node(_name(name), tuple(decorations), implements or (), body, at)

    def implements(self, names: list[Any]) -> tuple[ast.Name, ...]:
        return tuple(_name(name) for name in names)

    def edge(self, parts: list[Any]) -> ast.Edge:
        keyword, name, source, _arrow, target, *decorations, body = parts
        end = body.span[1] if body else decorations[-1].span[1] if decorations else target.end_pos
        at = (keyword.start_pos, end)
        return ast.Edge(_name(name), _name(source), _name(target), tuple(decorations), body, at)

    def edge_body(self, parts: list[Any]) -> ast.Body:
        brace, *members, end = parts
        return _body(brace, members, end)

    def property(self, parts: list[Any]) -> ast.Property:
        name, type_ = parts
        return ast.Property(_name(name), type_, (name.start_pos, type_.span[1]))

    # Types

    def type(self, parts: list[Any]) -> ast.TypeRef:
        base, mark = parts
        if mark is None:
            return base  # type: ignore[no-any-return]
        return ast.TypeRef(base.type.as_nullable(), (base.span[0], mark.end_pos), base.enum_source)

    def named_type(self, parts: list[Any]) -> ast.TypeRef:
        return ast.TypeRef(PropType(_base_type(parts[0])), span(parts[0]))

    def list_type(self, parts: list[Any]) -> ast.TypeRef:
        start, name, end = parts
        if name == "Blob":
            raise Rejection("a list of Blob is not supported", span(name), "keep each blob in a node of its own")
        return ast.TypeRef(PropType(_base_type(name), is_list=True), (start.start_pos, end.end_pos))

    def sized_type(self, parts: list[Any]) -> ast.TypeRef:
        name, size, end = parts
        at = (name.start_pos, end.end_pos)
        if name != "Vector":
            raise Rejection(f"`{name}` takes no size; only `Vector(n)` does", at)
        return ast.TypeRef(PropType("Vector", dimension=vector_dimension(self.integer_value(size), span(size))), at)

    def enum_type(self, parts: list[Any]) -> ast.TypeRef:
        keyword, *values, end = parts
        seen: set[str] = set()
        for value in values:
            if value in seen:
                raise Rejection(f"enum has duplicate values: `{value}`", span(value))
            seen.add(str(value))
        type_ = PropType("String", enum_values=tuple(sorted(seen)))
        return ast.TypeRef(type_, (keyword.start_pos, end.end_pos), tuple(str(value) for value in values))

    # Decorations

    def bare_at(self, parts: list[Any]) -> ast.Decoration:
        sign, name = parts
        return ast.Decoration(str(name), None, (sign.start_pos, name.end_pos))

    def at(self, parts: list[Any]) -> ast.Decoration:
        sign, name, *arguments, end = parts
        present = tuple(argument for argument in arguments if argument is not None)
        return ast.Decoration(str(name), present, (sign.start_pos, end.end_pos))

    def word_argument(self, parts: list[Any]) -> ast.Word:
        return ast.Word(str(parts[0]), span(parts[0]))

    def keyword_argument(self, parts: list[Any]) -> ast.Keyword:
        name, value = parts
        return ast.Keyword(str(name), value, (name.start_pos, value.span[1]))

    def literal_argument(self, parts: list[Any]) -> ast.Literal:
        return parts[0]  # type: ignore[no-any-return]

    def range_argument(self, parts: list[Any]) -> ast.Range:
        low, dots, high = parts
        return ast.Range(low, high, (low.span[0], high.span[1] if high else dots.end_pos))

    def open_range_argument(self, parts: list[Any]) -> ast.Range:
        dots, high = parts
        return ast.Range(None, high, (dots.start_pos, high.span[1]))

    def string(self, parts: list[Any]) -> ast.Literal:
        return ast.Literal(unquote(parts[0]), span(parts[0]))

    def boolean(self, parts: list[Any]) -> ast.Literal:
        return ast.Literal(parts[0] == "true", span(parts[0]))

    def number(self, parts: list[Any]) -> ast.Literal:
        return ast.Literal(self._number(parts[0]), span(parts[0]))

    def negative(self, parts: list[Any]) -> ast.Literal:
        sign, digits = parts
        return ast.Literal(-self._number(digits), (sign.start_pos, digits.end_pos))

    def _number(self, token: Token) -> int | float:
        return self.float_value(token) if token.type == "FLOAT" else self.integer_value(token)


def _body(brace: Token, members: list[Any], end: Token) -> ast.Body:
    return ast.Body(tuple(members), (span(brace)[0], span(end)[1]))


def _base_type(token: Token) -> str:
    if token in BASE_TYPES:
        return str(token)
    if token == "Vector":
        raise Rejection("a vector needs its dimension", span(token), "write `Vector(384)`; lists of vectors do not exist")
    raise Rejection(
        f"unknown property type `{clip(str(token))}`",
        span(token),
        foreign_type_help(token)
        or did_you_mean(str(token), (*BASE_TYPES, "Vector"))
        or f"the types are {', '.join(BASE_TYPES)}, Vector(n), enum(...) and lists",
    )


def vector_dimension(size: int, at: ast.At) -> int:
    """Check a vector dimension and return it; query parameters use it too."""
    if size < 1:
        raise Rejection(f"Vector dimension must be at least 1, found {size}", at)
    if size > MAX_VECTOR_DIMENSION:
        raise Rejection(f"Vector dimension {size} exceeds maximum supported {MAX_VECTOR_DIMENSION}", at)
    return size


_PARSER = LanguageParser("schema", _Builder)
