"""A process that reads one graph again and again, each time after one of its derived files was damaged.

`derived_reader.py URI MODE SEED COUNT`. It says what it is about to do before it does it, so that whoever started it knows
which damage ended it. What every question answers must be what it answers without any derived file; in the mode `forge`
it may be anything.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import omnigraph_sql as og
from omnigraph_sql.storage.derived_files import SUFFIX, DerivedFiles, derived_directory
from omnigraph_sql.storage.table_names import fnv1a64_hex

SCHEMA = """
node Port { name: String @key  rank: I64  note: String? @index  place: Vector(4)? @index }
node Ship { name: String @key }
edge Lane: Port -> Port
edge Calls: Ship -> Port
"""
QUESTIONS = {
    "hops": "query q() { match { $a: Port $a lane{1,2} $b } return { $a.name, count($b) as n } order { $a.name } }",
    "pairs": "query q() { match { $a: Port $a lane $b } return { $a.name, $b.name } order { $a.name, $b.name } }",
    "into": "query q() { match { $s: Ship $s calls $p $q lane $p } return { $s.name, $q.name } order { $s.name, $q.name } }",
    "text": 'query q() { match { $a: Port search($a.note, "word3") } return { $a.name } order { $a.name } }',
    "fuzzy": 'query q() { match { $a: Port fuzzy($a.note, "wrd5", 1) } return { $a.name } order { $a.name } }',
    "near": "query q() { match { $a: Port } return { $a.name } order { nearest($a.place, [0.5, 0.5, 0.5, 0.5]) } limit 20 }",
    "bm25": 'query q() { match { $a: Port } return { $a.name } order { bm25($a.note, "word1 word5") desc } limit 20 }',
}
Damage = Callable[[Path, random.Random, list[Path]], str]


def build(uri: str, nodes: int = 1300, edges: int = 4000) -> None:
    """A graph with everything that derived files are made of: parallel edges, nulls, deleted rows, several fragments."""
    draw = random.Random(7)
    ports = [_port(number, draw) for number in range(nodes)]
    ships = [{"type": "Ship", "data": {"name": f"s{number}"}} for number in range(40)]
    lanes = [{"edge": "Lane", "from": f"p{draw.randrange(nodes)}", "to": f"p{draw.randrange(60)}"} for _ in range(edges)]
    calls = [{"edge": "Calls", "from": f"s{number}", "to": f"p{draw.randrange(60)}"} for number in range(40)]
    with og.init(uri, SCHEMA) as graph:
        graph.load(map(json.dumps, [*ports[:-100], *ships]), mode="append")
        graph.load(map(json.dumps, [*ports[-100:], *lanes, *lanes[:50], *calls]), mode="append")
        graph.mutate('query q() { delete Port where name = "p1250" }')


def _port(number: int, draw: random.Random) -> dict[str, Any]:
    note = f"word{number % 7} word{number % 5} x{number}" if number % 11 else None
    place = [draw.random() for _ in range(4)] if number % 13 else None
    return {"type": "Port", "data": {"name": f"p{number}", "rank": number, "note": note, "place": place}}


def answers(graph: og.Graph) -> dict[str, list[Any]]:
    return {name: graph.query(text).to_pylist() for name, text in QUESTIONS.items()}


def place(path: Path, content: bytes | bytearray) -> None:
    """Put a file in the place of another, as whoever writes derived files does."""
    new = path.with_name("new")
    new.write_bytes(content)
    new.replace(path)


def flip(path: Path, draw: random.Random, _: list[Path]) -> str:
    content = bytearray(path.read_bytes())
    at, bit = draw.randrange(len(content)), draw.randrange(8)
    content[at] ^= 1 << bit
    place(path, content)
    return f"bit {bit} of byte {at}"


def flip_early(path: Path, draw: random.Random, _: list[Path]) -> str:
    """In the header, which is small beside the arrays."""
    content = bytearray(path.read_bytes())
    at, bit = draw.randrange(min(len(content), 800)), draw.randrange(8)
    content[at] ^= 1 << bit
    place(path, content)
    return f"bit {bit} of byte {at}"


def cut(path: Path, draw: random.Random, _: list[Path]) -> str:
    content = path.read_bytes()
    length = draw.randrange(len(content))
    place(path, content[:length])
    return f"cut to {length}"


def empty(path: Path, _: random.Random, __: list[Path]) -> str:
    place(path, b"")
    return "empty"


def half_written(path: Path, draw: random.Random, _: list[Path]) -> str:
    """The length is right, the rest was never written."""
    content = path.read_bytes()
    length = draw.randrange(len(content))
    place(path, content[:length] + bytes(len(content) - length))
    return f"zeros from {length}"


def longer(path: Path, _: random.Random, __: list[Path]) -> str:
    place(path, path.read_bytes() + bytes(64))
    return "longer"


def swapped(path: Path, draw: random.Random, files: list[Path]) -> str:
    other = draw.choice(files)
    place(path, other.read_bytes())
    return f"content of {other.parent.name}/{other.name}"


def directory(path: Path, _: random.Random, __: list[Path]) -> str:
    path.unlink()
    path.mkdir()
    return "a directory"


def pipe(path: Path, _: random.Random, __: list[Path]) -> str:
    path.unlink()
    os.mkfifo(path)
    return "a pipe"


def link(path: Path, _: random.Random, __: list[Path]) -> str:
    path.unlink()
    path.symlink_to(path)
    return "a link to itself"


def unreadable(path: Path, _: random.Random, __: list[Path]) -> str:
    path.chmod(0)
    return "unreadable"


def forge(path: Path, draw: random.Random, _: list[Path]) -> str:
    """Other numbers, with checksums that are right for them."""
    files, kind = DerivedFiles(path.parent.parent), path.parent.name
    (key,) = [file.key for file in files.listing(kind) if (path.parent / f"{fnv1a64_hex(file.key)}{SUFFIX}") == path]
    file = files.read(kind, key)
    assert file is not None
    arrays = {name: values.copy() for name, values in file.arrays.items()}
    name = draw.choice([name for name, values in arrays.items() if len(values)])
    values = arrays[name]
    at = draw.randrange(len(values))
    if values.dtype.kind == "f":
        values[at] = draw.choice([np.nan, np.inf, 1e38])
    else:
        limits = np.iinfo(values.dtype)
        number = draw.choice([limits.min, limits.max, limits.max // 2, 0, 1, len(values), int(values[at - 1])])
        values[at : at + draw.choice([1, 1, len(values)])] = min(number, limits.max)
    assert files.write(kind, key, file.facts, arrays)
    return f"{name} from {at}"


def gone(path: Path, _: random.Random, __: list[Path]) -> str:
    path.unlink()
    return "gone"


OTHERS: list[Damage] = [
    flip_early,
    cut,
    empty,
    half_written,
    longer,
    swapped,
    directory,
    pipe,
    link,
    unreadable,
    gone,
]


def main() -> None:
    uri, mode, seed, flips = sys.argv[1:]
    draw = random.Random(int(seed))
    derived = derived_directory(uri)
    shutil.rmtree(derived, ignore_errors=True)
    with og.connect(uri, read_only=True) as graph:
        right = answers(graph)
    with og.connect(uri) as graph:
        assert answers(graph) == right
    whole = {path: path.read_bytes() for path in sorted(derived.rglob("*")) if path.is_file()}
    kinds = {path.parent.name for path in whole}
    assert kinds == {"ids", "topology", "text", "vector"}, kinds
    for path, content in whole.items():
        for damage in [forge] * int(flips) if mode == "forge" else [flip] * int(flips) + OTHERS:
            say(path=f"{path.parent.name}/{path.name}", damage=damage(path, draw, list(whole)))
            with og.connect(uri, read_only=mode != "write") as graph:
                for name, text in QUESTIONS.items():
                    try:
                        rows = graph.query(text).to_pylist()
                    except Exception as error:
                        say(question=name, wrong=f"{type(error).__name__}: {error}")
                    else:
                        if rows != right[name]:
                            say(question=name, wrong="another answer")
            restore(path, content)
    say(done=len(whole))


def restore(path: Path, content: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    place(path, content)


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
