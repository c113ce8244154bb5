"""The names of a query: parameters, bound variables and aliases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import NamedTuple, NoReturn

from omnigraph_compiler import ir
from omnigraph_compiler.diagnostics import Reporter, clip, did_you_mean
from omnigraph_compiler.query import ast
from omnigraph_compiler.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph_compiler.types import BASE_TYPES, PropType, foreign_type_help

ANONYMOUS = "_"


class Typed(NamedTuple):
    """A checked expression: its IR and its type. A bare node variable has the type of its id."""

    expr: ir.Expr
    type: PropType

    @property
    def is_node(self) -> bool:
        return isinstance(self.expr, ir.IdRef)


@dataclass(slots=True)
class Fail:
    """Raises type errors that point into the query."""

    report: Reporter

    def __call__(self, code: str | None, text: str, at: ast.At, help: str | None = None) -> NoReturn:
        self.report.fail("type", text, at, code=code, help=help)

    def input(self, text: str, at: ast.At, help: str | None = None) -> NoReturn:
        self.report.fail("input", text, at, help=help)


@dataclass(slots=True)
class Scope:
    """The names of one query and their types. A `not` block gets a child scope; hidden variables are numbered query-wide.

    A name bound first inside a `not` block is local to it, even if an enclosing block binds the same name further down. In
    the IR such a local variable is renamed, so that the two never share a column.
    """

    catalog: Catalog
    fail: Fail
    params: Mapping[str, PropType]
    _: KW_ONLY
    nodes: dict[str, NodeType] = field(default_factory=dict)
    edges: dict[str, EdgeType] = field(default_factory=dict)
    aliases: dict[str, Typed] = field(default_factory=dict)
    counter: Iterator[int] = field(default_factory=lambda: iter(range(1, 2**31)))
    uses_now: list[bool] = field(default_factory=list)
    enclosing: frozenset[str] = frozenset()
    """All names that enclosing blocks bind."""
    renamed: dict[str, str] = field(default_factory=dict)

    def child(self, block_names: frozenset[str]) -> Scope:
        """Return the scope of a `not` block inside a block that binds `block_names`."""
        return replace(
            self,
            nodes=dict(self.nodes),
            edges=dict(self.edges),
            enclosing=self.enclosing | block_names,
            renamed=dict(self.renamed),
        )

    def bind_node(self, name: str, node: NodeType) -> None:
        self.claim(name)
        self.nodes[name] = node

    def bind_edge(self, name: str, edge: EdgeType) -> None:
        self.claim(name)
        self.edges[name] = edge

    def claim(self, name: str) -> None:
        """Choose the IR name of a variable that is about to be bound."""
        if not self.is_bound(name) and name in self.enclosing:
            self.renamed[name] = name + self.hidden()

    def ref(self, name: str) -> str:
        """Return the IR name of a bound variable."""
        return self.renamed.get(name, name)

    def hidden(self) -> str:
        return f"#{next(self.counter)}"

    def is_bound(self, name: str) -> bool:
        return name in self.nodes or name in self.edges

    def variables(self) -> list[str]:
        return [*self.nodes, *self.edges]


def check_params(fail: Fail, declared: tuple[ast.Param, ...]) -> dict[str, PropType]:
    params: dict[str, PropType] = {}
    for param in declared:
        name = param.variable.text
        if name == ir.NOW:
            fail(None, "the parameter name `$__now` is reserved for now()", param.variable.span, "choose another name")
        if name in params:
            fail(None, f"duplicate parameter `${name}`", param.variable.span)
        params[name] = _param_type(fail, param.type)
    return params


def _param_type(fail: Fail, written: ast.ParamType) -> PropType:
    name = written.name
    if written.dimension is not None and name == "Vector":
        return PropType("Vector", written.nullable, dimension=written.dimension)
    if name not in BASE_TYPES or written.dimension is not None:
        if name == "Vector":
            help_text: str | None = "a vector parameter needs its dimension: `Vector(3)`; lists of vectors do not exist"
        else:
            near = foreign_type_help(name) or did_you_mean(name, (*BASE_TYPES, "Vector"))
            help_text = near or "use a base type, [T] or Vector(n)"
        fail(None, f"unknown parameter type `{clip(name)}`", written.name_span, help_text)
    return PropType(name, written.nullable, written.is_list)
