"""The formatter of queries."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph_compiler.arguments import checked
from omnigraph_compiler.format.printer import Element, Printer
from omnigraph_compiler.lexer import quote
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.parse import parse_queries


@checked(text=str)
def format_queries(text: str) -> str:
    """Format a `.gq` text: same meaning, same comments, one layout. Raises `CompileError` on a parse error.

    >>> print(format_queries("query q(){match{$p:Port}return{$p.code $p.depth}limit 3}"), end="")
    query q() {
      match {
        $p: Port
      }
      return { $p.code, $p.depth }
      limit 3
    }
    """
    queries = parse_queries(text)
    return _Formatter(text).run(queries)


class _Formatter:
    def __init__(self, source: str) -> None:
        self.source = source
        self.printer = Printer(source)

    def run(self, file: ast.File) -> str:
        for query in file.queries:
            self.printer.blank()
            self._query(query)
        return self.printer.result()

    def _query(self, query: ast.Query) -> None:
        out = self.printer
        params = [Element(f"${param.variable.text}: {_param_type(param.type)}", *param.span) for param in query.params]
        head = f"query {query.name.text}"
        tail = "" if query.metas else " {"
        out.group(head, "()", params, query.span[0], query.params_end, tail, last_comma=False, inner=1)
        if query.metas:
            out.enter(query.params_end)
            for meta in query.metas:
                out.line(f"@{meta.name}({self.source[slice(*meta.value_span)]})", *meta.span)
            out.close("{", *query.brace)
        out.enter(query.brace[1])
        if isinstance(query.body, ast.Read):
            self._read(query.body)
        else:
            for statement in query.body.statements:
                self._statement(statement)
        out.close("}", query.span[1] - 1, query.span[1])

    # Reads

    def _read(self, read: ast.Read) -> None:
        out = self.printer
        self._clauses("match {", read.match.span, read.match.clauses)
        out.group("return ", "{}", [self._item(item) for item in read.returns.items], *read.returns.span, last_comma=True)
        if read.order is not None:
            out.group("order ", "{}", [self._sort_key(key) for key in read.order.keys], *read.order.span, last_comma=False)
        if read.limit is not None:
            count = read.limit.count
            out.line(f"limit {count if isinstance(count, int) else f'${count.name}'}", *read.limit.span)

    def _clauses(self, head: str, span: ast.At, clauses: Iterable[ast.Clause]) -> None:
        out = self.printer
        brace = self.source.find("{", span[0])
        out.open(head, span[0], self._brace_after(span[0], brace))
        for clause in clauses:
            self._clause(clause)
        out.close("}", span[1] - 1, span[1])

    def _brace_after(self, start: int, brace: int) -> int:
        """Return the end of the brace that opens a block, past braces inside comments before it."""
        for first, last in reversed(self.printer.pending):
            if first > brace:
                break
            if start <= first <= brace < last:
                brace = self.source.find("{", last)
        return brace + 1

    def _clause(self, clause: ast.Clause) -> None:
        out = self.printer
        match clause:
            case ast.Negation():
                self._clauses("not {", clause.span, clause.clauses)
            case ast.Binding():
                head = f"${clause.variable.text}: {clause.type.text}"
                if not clause.matches:
                    out.line(head, *clause.span)
                    return
                matches = [
                    Element(f"{match.property.text}: {self._expr(match.value)}", *match.span) for match in clause.matches
                ]
                out.group(f"{head} ", "{}", matches, *clause.span, last_comma=True)
            case ast.Traversal():
                out.line(_traversal(clause), *clause.span)
            case ast.Filter():
                text = f"{self._expr(clause.left)} {clause.operator} {self._expr(clause.right)}"
                out.line(text, *clause.span)
            case ast.TextClause():
                out.line(self._expr(clause.predicate), *clause.span)

    def _item(self, item: ast.Item) -> Element:
        alias = f" as {item.alias.text}" if item.alias else ""
        return Element(self._expr(item.expr) + alias, *item.span)

    def _sort_key(self, key: ast.SortKey) -> Element:
        direction = f" {key.direction}" if key.direction else ""
        return Element(self._expr(key.expr) + direction, *key.span)

    # Writes

    def _statement(self, statement: ast.Statement) -> None:
        out = self.printer
        match statement:
            case ast.Insert():
                items = self._assignments(statement.assignments)
                out.group(f"insert {statement.type.text} ", "{}", items, *statement.span, last_comma=True)
            case ast.Update():
                items = self._assignments(statement.assignments)
                head = f"update {statement.type.text} set "
                start, end = statement.span[0], statement.set_span[1]
                tail = f" where {self._predicate(statement.predicate)}"
                out.group(head, "{}", items, start, end, tail, last_comma=True)
                out.extend(statement.span[1])
            case ast.Delete():
                out.line(f"delete {statement.type.text} where {self._predicate(statement.predicate)}", *statement.span)

    def _assignments(self, assignments: Iterable[ast.Assignment]) -> list[Element]:
        return [Element(f"{assign.property.text}: {self._expr(assign.value)}", *assign.span) for assign in assignments]

    def _predicate(self, pred: ast.Predicate) -> str:
        return f"{pred.property.text} {pred.operator} {self._expr(pred.value)}"

    # Expressions

    def _expr(self, expr: ast.Expr) -> str:
        match expr:
            case ast.Variable():
                return f"${expr.name}"
            case ast.Access():
                return f"${expr.variable.text}.{expr.property.text}"
            case ast.Alias():
                return expr.name
            case ast.Now():
                return "now()"
            case ast.Scalar():
                if expr.type in ("Date", "DateTime"):
                    return f"{expr.type.lower()}({quote(str(expr.value))})"
                return self.source[slice(*expr.span)]
            case ast.ListLiteral():
                return f"[{', '.join(self._expr(item) for item in expr.items)}]"
            case ast.Aggregate():
                return self._call(expr.function, expr.argument)
            case ast.TextPredicate():
                return self._call(expr.function, expr.field, expr.query, expr.max_edits)
            case ast.Nearest() | ast.Bm25():
                return self._call(type(expr).__name__.lower(), expr.field, expr.query)
            case ast.Rrf():
                return self._call("rrf", expr.first, expr.second, expr.k)

    def _call(self, function: str, *arguments: ast.Expr | None) -> str:
        return f"{function}({', '.join(self._expr(argument) for argument in arguments if argument is not None)})"


def _traversal(clause: ast.Traversal) -> str:
    edge = f"<{clause.edge.text}>" if clause.undirected else clause.edge.text
    if clause.edge_variable is not None:
        edge = f"${clause.edge_variable.text}:{edge}"
    hops = ""
    if clause.hops is not None:
        maximum = "" if clause.hops.maximum is None else str(clause.hops.maximum)
        hops = f"{{{clause.hops.minimum},{maximum}}}"
    return f"${clause.source.text} {edge}{hops} ${clause.target.text}"


def _param_type(type_: ast.ParamType) -> str:
    shown = f"[{type_.name}]" if type_.is_list else type_.name
    if type_.dimension is not None:
        shown = f"{type_.name}({type_.dimension})"
    return shown + ("?" if type_.nullable else "")
