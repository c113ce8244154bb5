"""Query text to syntax tree."""

from __future__ import annotations

from typing import Any

from lark import Token

from omnigraph_compiler.lexer import unquote
from omnigraph_compiler.parsing import LanguageParser, Rejection, SyntaxBuilder, span
from omnigraph_compiler.query import ast

_METAS = ("description", "instruction")


def parse_queries(text: str) -> ast.File:
    """Parse a `.gq` file; the first thing that does not fit raises a parse error."""
    file: ast.File = _PARSER.parse(text)
    return file


def _name(token: Token) -> ast.Name:
    return ast.Name(str(token), span(token))


def _variable_name(token: Token) -> ast.Name:
    return ast.Name(token[1:], span(token))


def _present(children: list[Any]) -> tuple[Any, ...]:
    return tuple(child for child in children if child is not None)


class _Builder(SyntaxBuilder):
    """Callbacks of the grammar's rules; each receives the rule's children."""

    def start(self, queries: list[Any]) -> ast.File:
        return ast.File(tuple(queries))

    # Header

    def query(self, parts: list[Any]) -> ast.Query:
        keyword, name, *rest = parts
        close = next(i for i, part in enumerate(rest) if isinstance(part, Token))
        params = _present(rest[:close])
        *metas, brace, body, end = rest[close + 1 :]
        seen: set[str] = set()
        for meta in metas:
            if meta.name in seen:
                raise Rejection(f"@{meta.name} is given multiple times", meta.span)
            seen.add(meta.name)
        at = (keyword.start_pos, end.end_pos)
        return ast.Query(_name(name), params, rest[close].end_pos, tuple(metas), span(brace), body, at)

    def meta(self, parts: list[Any]) -> ast.Meta:
        sign, name, value, end = parts
        at = (sign.start_pos, end.end_pos)
        if name not in _METAS:
            raise Rejection(f"@{name} is not an annotation of queries", at, "queries take @description and @instruction")
        return ast.Meta(str(name), unquote(value), span(value), at)

    def param(self, parts: list[Any]) -> ast.Param:
        variable, type_ = parts
        return ast.Param(_variable_name(variable), type_, (variable.start_pos, type_.span[1]))

    def param_type(self, parts: list[Any]) -> ast.ParamType:
        base, mark = parts
        if isinstance(base, Token):
            base = ast.ParamType(str(base), None, False, False, span(base), span(base))
        if mark is None:
            return base  # type: ignore[no-any-return]
        at = (base.span[0], mark.end_pos)
        return ast.ParamType(base.name, base.dimension, base.is_list, True, base.name_span, at)

    def sized_type(self, parts: list[Any]) -> ast.ParamType:
        name, size, end = parts
        at = (name.start_pos, end.end_pos)
        return ast.ParamType(str(name), self.integer_value(size), False, False, span(name), at)

    def list_type(self, parts: list[Any]) -> ast.ParamType:
        start, name, end = parts
        return ast.ParamType(str(name), None, True, False, span(name), (start.start_pos, end.end_pos))

    # Reads

    def read(self, parts: list[Any]) -> ast.Read:
        match, returns, order, limit = parts
        last = limit or order or returns
        return ast.Read(match, returns, order, limit, (match.span[0], last.span[1]))

    def match_block(self, parts: list[Any]) -> ast.MatchBlock:
        return ast.MatchBlock(tuple(parts[2:-1]), (parts[0].start_pos, parts[-1].end_pos))

    def return_block(self, parts: list[Any]) -> ast.ReturnBlock:
        keyword, _, items, end = parts
        return ast.ReturnBlock(tuple(items), (keyword.start_pos, end.end_pos))

    def order_block(self, parts: list[Any]) -> ast.OrderBlock:
        return ast.OrderBlock(tuple(parts[2:-1]), (parts[0].start_pos, parts[-1].end_pos))

    def limit(self, parts: list[Any]) -> ast.Limit:
        keyword, count = parts
        return ast.Limit(self.integer_value(count), (keyword.start_pos, count.end_pos))

    def negation(self, parts: list[Any]) -> ast.Negation:
        return ast.Negation(tuple(parts[2:-1]), (parts[0].start_pos, parts[-1].end_pos))

    def binding(self, parts: list[Any]) -> ast.Binding:
        variable, type_, *rest = parts
        matches = tuple(part for part in rest if isinstance(part, ast.PropertyMatch))
        end = rest[-1] if rest else type_
        return ast.Binding(_variable_name(variable), _name(type_), matches, bool(rest), (variable.start_pos, end.end_pos))

    def propmatch(self, parts: list[Any]) -> ast.PropertyMatch:
        name, value = parts
        return ast.PropertyMatch(_name(name), value, (name.start_pos, value.span[1]))

    def traversal(self, parts: list[Any]) -> ast.Traversal:
        return self._traversal(parts[0], None, parts[1], parts[2:], False)

    def undirected(self, parts: list[Any]) -> ast.Traversal:
        return self._traversal(parts[0], None, parts[1], parts[2:], True)

    def bound_traversal(self, parts: list[Any]) -> ast.Traversal:
        return self._traversal(parts[0], parts[1], parts[2], parts[3:], False)

    def bound_undirected(self, parts: list[Any]) -> ast.Traversal:
        return self._traversal(parts[0], parts[1], parts[2], parts[3:], True)

    @staticmethod
    def _traversal(source: Token, variable: Token | None, edge: Token, rest: list[Any], both: bool) -> ast.Traversal:
        target = rest[-1]
        return ast.Traversal(
            _variable_name(source),
            None if variable is None else _variable_name(variable),
            _name(edge),
            both,
            rest[0] if len(rest) > 1 else None,
            _variable_name(target),
            (source.start_pos, target.end_pos),  # type: ignore[arg-type]
        )

    def hops(self, parts: list[Any]) -> ast.Hops:
        start, low, high, end = parts
        maximum = None if high is None else self.integer_value(high)
        return ast.Hops(self.integer_value(low), maximum, (start.start_pos, end.end_pos))

    def filter(self, parts: list[Any]) -> ast.Filter:
        left, operator, right = parts
        if isinstance(left, Token):
            left = self.variable([left])
        return ast.Filter(left, str(operator), right, (left.span[0], right.span[1]))

    def text_clause(self, parts: list[Any]) -> ast.TextClause:
        return ast.TextClause(parts[0], parts[0].span)

    def textpred(self, parts: list[Any]) -> ast.TextPredicate:
        function, field, query, *rest = parts
        max_edits = rest[0] if len(rest) > 1 else None
        return ast.TextPredicate(str(function), field, query, max_edits, (function.start_pos, rest[-1].end_pos))

    def items(self, parts: list[Any]) -> list[ast.Item]:
        if isinstance(parts[0], list):
            parts[0].append(parts[1])
            return parts[0]
        return [parts[0]]

    def item(self, parts: list[Any]) -> ast.Item:
        expr, keyword, alias = parts
        if keyword is None:
            return ast.Item(expr, None, expr.span)
        return ast.Item(expr, _name(alias), (expr.span[0], alias.end_pos))

    def sortkey(self, parts: list[Any]) -> ast.SortKey:
        expr, direction = parts
        if direction is None:
            return ast.SortKey(expr, None, expr.span)
        if isinstance(expr, ast.Nearest):
            raise Rejection(
                f"nearest(...) takes no direction, found `{direction}`",
                span(direction),
                "nearest(...) always sorts by ascending distance",
            )
        return ast.SortKey(expr, str(direction), (expr.span[0], direction.end_pos))

    # Expressions

    def variable(self, parts: list[Any]) -> ast.Variable:
        return ast.Variable(parts[0][1:], span(parts[0]))

    def access(self, parts: list[Any]) -> ast.Access:
        variable, name = parts
        return ast.Access(_variable_name(variable), _name(name), (variable.start_pos, name.end_pos))

    def alias(self, parts: list[Any]) -> ast.Alias:
        return ast.Alias(str(parts[0]), span(parts[0]))

    def now(self, parts: list[Any]) -> ast.Now:
        return ast.Now((parts[0].start_pos, parts[-1].end_pos))

    def nearest(self, parts: list[Any]) -> ast.Nearest:
        keyword, field, query, end = parts
        return ast.Nearest(field, query, (keyword.start_pos, end.end_pos))

    def bm25(self, parts: list[Any]) -> ast.Bm25:
        keyword, field, query, end = parts
        return ast.Bm25(field, query, (keyword.start_pos, end.end_pos))

    def rrf(self, parts: list[Any]) -> ast.Rrf:
        keyword, first, second, k, end = parts
        return ast.Rrf(first, second, k, (keyword.start_pos, end.end_pos))

    def aggregate(self, parts: list[Any]) -> ast.Aggregate:
        function, argument, end = parts
        return ast.Aggregate(str(function), argument, (function.start_pos, end.end_pos))

    # Literals

    def list(self, parts: list[Any]) -> ast.ListLiteral:
        return ast.ListLiteral(_present(parts[1:-1]), (parts[0].start_pos, parts[-1].end_pos))

    def string(self, parts: list[Any]) -> ast.Scalar:
        return ast.Scalar("String", unquote(parts[0]), span(parts[0]))

    def float(self, parts: list[Any]) -> ast.Scalar:
        return ast.Scalar("F64", self.float_value(parts[0]), span(parts[0]))

    def integer(self, parts: list[Any]) -> ast.Scalar:
        return ast.Scalar("I64", self.integer_value(parts[0]), span(parts[0]))

    def boolean(self, parts: list[Any]) -> ast.Scalar:
        return ast.Scalar("Bool", parts[0] == "true", span(parts[0]))

    def date(self, parts: list[Any]) -> ast.Scalar:
        return ast.Scalar("Date", unquote(parts[1]), (parts[0].start_pos, parts[2].end_pos))

    def datetime(self, parts: list[Any]) -> ast.Scalar:
        return ast.Scalar("DateTime", unquote(parts[1]), (parts[0].start_pos, parts[2].end_pos))

    # Writes

    def write(self, statements: list[Any]) -> ast.Write:
        return ast.Write(tuple(statements), (statements[0].span[0], statements[-1].span[1]))

    def insert(self, parts: list[Any]) -> ast.Insert:
        keyword, type_, *rest = parts
        return ast.Insert(_name(type_), _assignments(rest), (keyword.start_pos, rest[-1].end_pos))

    def update(self, parts: list[Any]) -> ast.Update:
        keyword, type_, *rest, close, predicate = parts
        at = (keyword.start_pos, predicate.span[1])
        return ast.Update(_name(type_), _assignments(rest), (type_.end_pos, close.end_pos), predicate, at)

    def delete(self, parts: list[Any]) -> ast.Delete:
        keyword, type_, predicate = parts
        return ast.Delete(_name(type_), predicate, (keyword.start_pos, predicate.span[1]))

    def assign(self, parts: list[Any]) -> ast.Assignment:
        name, value = parts
        return ast.Assignment(_name(name), value, (name.start_pos, value.span[1]))

    def pred(self, parts: list[Any]) -> ast.Predicate:
        name, operator, value = parts
        return ast.Predicate(_name(name), str(operator), value, (name.start_pos, value.span[1]))


def _assignments(parts: list[Any]) -> tuple[ast.Assignment, ...]:
    return tuple(part for part in parts if isinstance(part, ast.Assignment))


_PARSER = LanguageParser("query", _Builder)
