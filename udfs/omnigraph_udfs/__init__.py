"""Operators over Arrow and NumPy arrays that SQL has no word for.

They take and return arrays, know nothing of storage or engines, and are written once for every engine. A node or an edge is
its position in its table, an integer; strings appear at the borders only.

| Module | What for |
|---|---|
| `csr` | adjacency of an edge table: build, transpose, undirected, without parallel edges, extend |
| `expand` | one hop: destinations of a frontier, functional edges, existence |
| `reach` | variable length: destinations, existence, distances |
| `messages` | aggregates over the neighbours of every vertex |
| `ids` | string id to position |
| `analysis`, `segments`, `text` | tokens of texts, inverted segments of a column, predicates and scores |
| `vector` | distances, exact nearest neighbours |
| `ranking`, `fusion` | best of many with exact ties, reciprocal rank fusion |

Import the module you need. The compiled parts live in `kernels` and load at the first call that needs them: importing
this package, or any module named above, compiles nothing and does not load numba.
"""
