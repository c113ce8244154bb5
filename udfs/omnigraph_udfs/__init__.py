"""Operators over Arrow and NumPy arrays that SQL does not have.

They take and return arrays, import no storage and no engine, and are shared by all engines. A node or an edge is its
position in its table, an integer; strings appear only at the interfaces.

| Module | Contents |
|---|---|
| `csr` | adjacency of an edge table: build, transpose, undirected, without parallel edges, extend |
| `expand` | one hop: destinations of a frontier, functional edges, existence |
| `reach` | variable length: destinations, existence, distances |
| `path_aggregates` | aggregates over the neighbours of every vertex |
| `common_neighbours` | vertices adjacent to both of two vertices |
| `ids` | string id to position |
| `checks` | validation of arrays from files before compiled code reads them |
| `analysis`, `segments`, `text` | tokens of texts, inverted segments of a column, predicates and scores |
| `vector` | distances, exact nearest neighbours |
| `ranking`, `fusion` | top-k with exact ties, reciprocal rank fusion |

Import the module you need. The compiled code in `kernels` is loaded by the first call that needs it: importing
this package, or any module named above, compiles nothing and does not load numba.
"""
