"""The speed of reading load records: `python -m bench.reading [RECORDS]`.

Prints records per second for common shapes of records, and those of `json.loads` alone on the same lines: no reader that
parses line by line in Python can be faster.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from random import Random

from bench.measure import measure
from omnigraph_compiler import compile_schema
from omnigraph_sql.writes.readers import Reject, read_records

CATALOG = compile_schema(
    """
    node Port { code: String @key  depth: F64?  opened: Date?  seen: DateTime?  tags: [String]?  kind: enum(river, sea)? }
    node Ship { name: String  crew: I32? }
    node Page { url: String @key  place: Vector(64)? }
    edge Lane: Port -> Port { nm: I32? }
    """
)
RANDOM = Random(7)


def ports(count: int) -> Iterator[str]:
    return (json.dumps({"type": "Port", "data": {"code": f"p{n}", "depth": n / 7}}) for n in range(count))


def ships(count: int) -> Iterator[str]:
    return (json.dumps({"type": "Ship", "data": {"name": f"s{n}", "crew": n}}) for n in range(count))


def lanes(count: int) -> Iterator[str]:
    return (json.dumps({"edge": "Lane", "from": f"p{n}", "to": f"p{n * 7 % count}"}) for n in range(count))


def exported(count: int) -> Iterator[str]:
    """Records with every member, as an export writes them."""
    for n in range(count):
        data = {"id": f"p{n}", "code": f"p{n}", "depth": n / 7, "opened": f"2024-01-{n % 28 + 1:02}", "kind": "sea"}
        data |= {"seen": "2024-05-01T12:00:00.000Z", "tags": ["a", "b"] if n % 2 else None}
        yield json.dumps({"type": "Port", "data": data})


def mixed(count: int) -> Iterable[str]:
    lines = [*ports(count // 3), *ships(count // 3), *lanes(count // 3)]
    RANDOM.shuffle(lines)
    return lines


def pages(count: int) -> Iterator[str]:
    for n in range(count // 10):
        yield json.dumps({"type": "Page", "data": {"url": f"u{n}", "place": [round(RANDOM.random(), 6) for _ in range(64)]}})


def one_in_a_thousand_faulty(count: int) -> Iterator[str]:
    for n, line in enumerate(ports(count)):
        yield line if n % 1000 else '{"type": "Port", "data": {"code": 5}}'


def every_line_doubtful(count: int) -> Iterator[str]:
    """The worst case: no record can take the fast path."""
    return (line + " " for line in ports(count))


SHAPES: tuple[Callable[[int], Iterable[str]], ...] = (
    ports,
    ships,
    lanes,
    exported,
    mixed,
    pages,
    one_in_a_thousand_faulty,
    every_line_doubtful,
)


def ignore(_: Reject) -> None:
    """Ignore the faulty records."""


def main(count: int) -> None:
    print(f"{'shape':26}{'records/s':>12}{'MB/s':>8}{'json.loads/s':>14}{'ratio':>8}")
    for shape in SHAPES:
        lines = list(shape(count))
        data = "\n".join(lines).encode()

        def read(data: bytes = data) -> int:
            return sum(batch.rows.num_rows for batch in read_records(data, CATALOG, on_reject=ignore))

        def peer(lines: list[str] = lines) -> None:
            for line in lines:
                json.loads(line)

        ours = len(lines) / measure(read, repeat=5, warm_up=1).median * 1000
        theirs = len(lines) / measure(peer, repeat=5, warm_up=1).median * 1000
        megabytes = ours * len(data) / len(lines) / 1e6
        print(f"{shape.__name__:26}{ours:12,.0f}{megabytes:8.0f}{theirs:14,.0f}{ours / theirs:8.2f}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB, the generated lines included")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)
