"""Query text to syntax tree."""

from __future__ import annotations

from typing import Any, TypeAlias

from lark import Token

from omnigraph_compiler.lark_driver import LanguageParser, Rejection, SyntaxBuilder, span
from omnigraph_compiler.lexer import unquote
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.foreign_syntax import foreign_syntax_help
from omnigraph_compiler.schema.parse import vector_dimension

Parts: TypeAlias = list[Any]
"""The children of a grammar rule. (An alias, because a rule is called `list`.)"""

_METAS = ("description", "instruction")


def parse_queries(text: str) -> ast.File:
    """Parse a `.gq` file. The first syntax error raises a `CompileError` of class `parse`."""
    file: ast.File = _PARSER.parse(text)
    return file


def _name(token: Token) -> ast.Name:
    return ast.Name(str(token), span(token))


def _variable_name(token: Token) -> ast.Name:
    return ast.Name(token[1:], span(token))


def _present(children: Parts) -> tuple[Any, ...]:
    return tuple(child for child in children if child is not None)


class _Builder(SyntaxBuilder):
    """Callbacks of the grammar's rules; each receives the rule's children."""

    def start(self, queries: Parts) -> ast.File:
        return ast.File(tuple(queries))

    # Header

    def query(self, parts: Parts) -> ast.Query:
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

    def meta(self, parts: Parts) -> ast.Meta:
        sign, name, value, end = parts
        at = (sign.start_pos, end.end_pos)
        if name not in _METAS:
            raise Rejection(f"@{name} is not an annotation of queries", at, "queries take @description and @instruction")
        return ast.Meta(str(name), unquote(value), span(value), at)

    def param(self, parts: Parts) -> ast.Param:
        variable, type_ = parts
        return ast.Param(_variable_name(variable), type_, (variable.start_pos, type_.span[1]))

    def param_type(self, parts: Parts) -> ast.ParamType:
        base, mark = parts
        if isinstance(base, Token):
            base = ast.ParamType(str(base), None, False, False, span(base), span(base))
        if mark is None:
            return base  # type: ignore[no-any-return]
        at = (base.span[0], mark.end_pos)
        return ast.ParamType(base.name, base.dimension, base.is_list, True, base.name_span, at)

    def sized_type(self, parts: Parts) -> ast.ParamType:
        name, size, end = parts
        at = (name.start_pos, end.end_pos)
        dimension = self.integer_value(size)
        if name == "Vector":
            vector_dimension(dimension, span(size))
        return ast.ParamType(str(name), dimension, False, False, span(name), at)

    def list_type(self, parts: Parts) -> ast.ParamType:
        start, name, end = parts
        return ast.ParamType(str(name), None, True, False, span(name), (start.start_pos, end.end_pos))

    # Reads

    def read(self, parts: Parts) -> ast.Read:
        match, returns, order, limit = parts
        last = limit or order or returns
        return ast.Read(match, returns, order, limit, (match.span[0], last.span[1]))

    def match_block(self, parts: Parts) -> ast.MatchBlock:
        return ast.MatchBlock(tuple(parts[2:-1]), (parts[0].start_pos, parts[-1].end_pos))

    def return_block(self, parts: Parts) -> ast.ReturnBlock:
        keyword, _, items, end = parts
        return ast.ReturnBlock(tuple(items), (keyword.start_pos, end.end_pos))

    def order_block(self, parts: Parts) -> ast.OrderBlock:
        return ast.OrderBlock(tuple(parts[2:-1]), (parts[0].start_pos, parts[-1].end_pos))

    def limit(self, parts: Parts) -> ast.Limit:
        keyword, count = parts
        written = self.variable([count]) if count.type == "VARIABLE" else self.integer_value(count)
        return ast.Limit(written, (keyword.start_pos, count.end_pos))

    def negation(self, parts: Parts) -> ast.Negation:
        return ast.Negation(tuple(parts[2:-1]), (parts[0].start_pos, parts[-1].end_pos))

    def binding(self, parts: Parts) -> ast.Binding:
        variable, type_, *rest = parts
        matches = tuple(part for part in rest if isinstance(part, ast.PropertyMatch))
        end = rest[-1] if rest else type_
        return ast.Binding(_variable_name(variable), _name(type_), matches, bool(rest), (variable.start_pos, end.end_pos))

    def propmatch(self, parts: Parts) -> ast.PropertyMatch:
        name, value = parts
        return ast.PropertyMatch(_name(name), value, (name.start_pos, value.span[1]))

    def traversal(self, parts: Parts) -> ast.Traversal:
        return self._traversal(parts[0], None, parts[1], parts[2:], False)

    def undirected(self, parts: Parts) -> ast.Traversal:
        return self._traversal(parts[0], None, parts[1], parts[2:], True)

    def bound_traversal(self, parts: Parts) -> ast.Traversal:
        return self._traversal(parts[0], parts[1], parts[2], parts[3:], False)

    def bound_undirected(self, parts: Parts) -> ast.Traversal:
        return self._traversal(parts[0], parts[1], parts[2], parts[3:], True)

    @staticmethod
    def _traversal(source: Token, variable: Token | None, edge: Token, rest: Parts, both: bool) -> ast.Traversal:
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

    def hops(self, parts: Parts) -> ast.Hops:
        start, low, high, end = parts
        maximum = None if high is None else self.integer_value(high)
        return ast.Hops(self.integer_value(low), maximum, (start.start_pos, end.end_pos))

    def filter(self, parts: Parts) -> ast.Filter:
        left, operator, right = parts
        if isinstance(left, Token):
            left = self.variable([left])
        return ast.Filter(left, str(operator), right, (left.span[0], right.span[1]))

    def text_clause(self, parts: Parts) -> ast.TextClause:
        return ast.TextClause(parts[0], parts[0].span)

    def textpred(self, parts: Parts) -> ast.TextPredicate:
        function, field, query, *rest = parts
        max_edits = rest[0] if len(rest) > 1 else None
        return ast.TextPredicate(str(function), field, query, max_edits, (function.start_pos, rest[-1].end_pos))

    def items(self, parts: Parts) -> Parts:
        if len(parts) == 2:
            parts[0].append(parts[1])
            return parts[0]  # type: ignore[no-any-return]
        return [parts[0]]

    def item(self, parts: Parts) -> ast.Item:
        expr, keyword, alias = parts
        if keyword is None:
            return ast.Item(expr, None, expr.span)
        return ast.Item(expr, _name(alias), (expr.span[0], alias.end_pos))

    def sortkey(self, parts: Parts) -> ast.SortKey:
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

    def variable(self, parts: Parts) -> ast.Variable:
        return ast.Variable(parts[0][1:], span(parts[0]))

    def access(self, parts: Parts) -> ast.Access:
        variable, name = parts
        return ast.Access(_variable_name(variable), _name(name), (variable.start_pos, name.end_pos))

    def alias(self, parts: Parts) -> ast.Alias:
        return ast.Alias(str(parts[0]), span(parts[0]))

    def now(self, parts: Parts) -> ast.Now:
        return ast.Now((parts[0].start_pos, parts[-1].end_pos))

    def nearest(self, parts: Parts) -> ast.Nearest:
        keyword, field, query, end = parts
        return ast.Nearest(field, query, (keyword.start_pos, end.end_pos))

    def bm25(self, parts: Parts) -> ast.Bm25:
        keyword, field, query, end = parts
        return ast.Bm25(field, query, (keyword.start_pos, end.end_pos))

    def rrf(self, parts: Parts) -> ast.Rrf:
        keyword, first, second, k, end = parts
        return ast.Rrf(first, second, k, (keyword.start_pos, end.end_pos))

    def aggregate(self, parts: Parts) -> ast.Aggregate:
        function, argument, end = parts
        return ast.Aggregate(str(function), argument, (function.start_pos, end.end_pos))

    # Literals

    def list(self, parts: Parts) -> ast.ListLiteral:
        return ast.ListLiteral(_present(parts[1:-1]), (parts[0].start_pos, parts[-1].end_pos))

    def string(self, parts: Parts) -> ast.Scalar:
        return ast.Scalar("String", unquote(parts[0]), span(parts[0]))

    def float(self, parts: Parts) -> ast.Scalar:
        return ast.Scalar("F64", self.float_value(parts[0]), span(parts[0]))

    def integer(self, parts: Parts) -> ast.Scalar:
        return ast.Scalar("I64", self.integer_value(parts[0]), span(parts[0]))

    def boolean(self, parts: Parts) -> ast.Scalar:
        return ast.Scalar("Bool", parts[0] == "true", span(parts[0]))

    def date(self, parts: Parts) -> ast.Scalar:
        return ast.Scalar("Date", unquote(parts[1]), (parts[0].start_pos, parts[2].end_pos))

    def datetime(self, parts: Parts) -> ast.Scalar:
        return ast.Scalar("DateTime", unquote(parts[1]), (parts[0].start_pos, parts[2].end_pos))

    # Writes

    def write(self, statements: Parts) -> ast.Write:
        return ast.Write(tuple(statements), (statements[0].span[0], statements[-1].span[1]))

    def insert(self, parts: Parts) -> ast.Insert:
        keyword, type_, *rest = parts
        return ast.Insert(_name(type_), _assignments(rest), (keyword.start_pos, rest[-1].end_pos))

    def update(self, parts: Parts) -> ast.Update:
        keyword, type_, *rest, close, predicate = parts
        at = (keyword.start_pos, predicate.span[1])
        return ast.Update(_name(type_), _assignments(rest), (type_.end_pos, close.end_pos), predicate, at)

    def delete(self, parts: Parts) -> ast.Delete:
        keyword, type_, predicate = parts
        return ast.Delete(_name(type_), predicate, (keyword.start_pos, predicate.span[1]))

    def assign(self, parts: Parts) -> ast.Assignment:
        name, value = parts
        return ast.Assignment(_name(name), value, (name.start_pos, value.span[1]))

    def pred(self, parts: Parts) -> ast.Predicate:
        name, operator, value = parts
        return ast.Predicate(_name(name), str(operator), value, (name.start_pos, value.span[1]))


def _assignments(parts: Parts) -> tuple[ast.Assignment, ...]:
    return tuple(part for part in parts if isinstance(part, ast.Assignment))


_PARSER = LanguageParser("query", _Builder, foreign_syntax_help)
