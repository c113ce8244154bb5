"""Keys of tables, views and schemas: `node:T`, `edge:E`, `table:S.T`, `view:S.V`, `schema:S`."""

from __future__ import annotations

from typing import Final

from omnigraph_compiler import EdgeType, NodeType

NODE: Final = "node"
EDGE: Final = "edge"


class TableKey(str):
    """A key as the manifest, sidecars and staged loads write it. It equals its text and can replace it as a key of maps.

    >>> key = TableKey.of_node("Port")
    >>> key, key.kind, key.name
    ('node:Port', 'node', 'Port')
    """

    __slots__ = ()

    @classmethod
    def of(cls, kind: str, name: str) -> TableKey:
        """The key of a kind and a name."""
        return cls(f"{kind}:{name}")

    @classmethod
    def of_node(cls, name: str) -> TableKey:
        """The key of a node type."""
        return cls.of(NODE, name)

    @classmethod
    def of_edge(cls, name: str) -> TableKey:
        """The key of an edge type."""
        return cls.of(EDGE, name)

    @classmethod
    def of_type(cls, type_: NodeType | EdgeType) -> TableKey:
        """The key of a type of the schema."""
        return cls.of_edge(type_.name) if isinstance(type_, EdgeType) else cls.of_node(type_.name)

    @property
    def kind(self) -> str:
        """`node`, `edge`, `table`, `view` or `schema`: the part before the colon."""
        return self.partition(":")[0]

    @property
    def name(self) -> str:
        """The name of the type, or of the relation with its schema: the part after the colon."""
        return self.partition(":")[2]

    @property
    def is_node(self) -> bool:
        """True for the table of a node type."""
        return self.kind == NODE

    @property
    def is_edge(self) -> bool:
        """True for the table of an edge type."""
        return self.kind == EDGE
