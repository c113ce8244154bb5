"""Names in a query: parameters, bound variables and aliases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from omnigraph_compiler import ir
from omnigraph_compiler.diagnostics import Reporter, clip, did_you_mean
from omnigraph_compiler.parsing import Rejection
from omnigraph_compiler.query import ast
from omnigraph_compiler.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph_compiler.schema.parse import vector_dimension
from omnigraph_compiler.types import BASE_TYPES, PropType

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
    """What the names of one query mean. Blocks inside `not` get a child scope; hidden variables are numbered query-wide."""

    catalog: Catalog
    fail: Fail
    params: Mapping[str, PropType]
    nodes: dict[str, NodeType] = field(default_factory=dict)
    edges: dict[str, EdgeType] = field(default_factory=dict)
    aliases: dict[str, Typed] = field(default_factory=dict)
    counter: Iterator[int] = field(default_factory=lambda: iter(range(1, 2**31)))
    uses_now: list[bool] = field(default_factory=list)

    def child(self) -> Scope:
        return Scope(
            self.catalog,
            self.fail,
            self.params,
            dict(self.nodes),
            dict(self.edges),
            self.aliases,
            self.counter,
            self.uses_now,
        )

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
        try:
            dimension = vector_dimension(written.dimension, written.span)
        except Rejection as rejection:
            fail.report.fail("parse", rejection.text, rejection.at)
        return PropType("Vector", written.nullable, dimension=dimension)
    if name not in BASE_TYPES or written.dimension is not None:
        if name == "Vector":
            help_text: str | None = "a vector parameter needs its dimension: `Vector(3)`; lists of vectors do not exist"
        else:
            help_text = did_you_mean(name, (*BASE_TYPES, "Vector")) or "use a base type, [T] or Vector(n)"
        fail(None, f"unknown parameter type `{clip(name)}`", written.name_span, help_text)
    return PropType(name, written.nullable, written.is_list)
