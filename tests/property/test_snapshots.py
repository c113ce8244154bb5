"""A snapshot that is brought up to date is the snapshot read anew."""

import json
from typing import Any

from hypothesis import strategies as st

from omnigraph_sql.manifest.snapshot import advance, reconstruct
from tests.property.laws import law

KEYS = ["node:A", "node:B", "edge:E"]


def row(object_id: str, kind: str, key: str, **more: Any) -> dict[str, Any]:
    blank = {"location": None, "metadata": None, "table_version": None, "table_branch": None, "row_count": None}
    return {"object_id": object_id, "object_type": kind, "table_key": key, **blank, **more}


@st.composite
def publishes(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """What publishes write, one list of rows each: pins that only grow, hand-overs, tombstones, returns, views, tags."""
    pins: dict[str, int] = {}
    hidden: dict[str, int] = {}
    made: list[list[dict[str, Any]]] = []
    for number in range(draw(st.integers(1, 8))):
        rows = [row("graph_head", "graph_head", "", metadata=_intent(number))]
        for key in draw(st.lists(st.sampled_from(KEYS), unique=True)):
            if key not in pins:
                rows.append(row(key, "table", key, location=f"nodes/{key[5:]}"))
            elif hidden.get(key, 0) < pins[key] and draw(st.booleans()):
                hidden[key] = pins[key] + 1
                rows.append(row(f"{key}$tombstone${hidden[key]}", "table_tombstone", key, table_version=hidden[key]))
                continue
            step = 1 if key not in pins or hidden.get(key, 0) >= pins[key] else draw(st.integers(0, 2))
            pins[key] = max(pins.get(key, 0), hidden.get(key, 0)) + step
            version = {"table_version": pins[key], "table_branch": f"b{number}", "row_count": number}
            evidence = json.dumps({"transaction_uuid": f"u{number}"})
            rows.append(row(f"{key}${pins[key]}", "table_version", key, metadata=evidence, **version))
        for key in draw(st.lists(st.sampled_from(["view:main.v", "schema:s"]), unique=True)):
            metadata = draw(st.sampled_from([None, json.dumps({"comment": f"c{number}"})]))
            rows.append(row(key, key.partition(":")[0], key, table_version=number + 1, metadata=metadata))
        for name in draw(st.lists(st.sampled_from(["v1", "v2"]), unique=True)):
            metadata = draw(st.sampled_from([None, json.dumps(_tag(number))]))
            rows.append(row(f"tag${name}", "tag", "", metadata=metadata))
        if draw(st.integers(0, 9)) == 0:
            rows.append(row("x", "from_the_future", "x"))
        made.append(draw(st.permutations(rows)))
    return made


def _tag(number: int) -> dict[str, Any]:
    return {"graph_commit_id": f"c{number}", "branch": "main", "manifest_version": number + 1, "created_at": number}


def _intent(number: int) -> str:
    fields = {"graph_commit_id": f"c{number}", "created_at": number, "writer_kind": "Load"}
    return json.dumps(fields)


def all_rows(made: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What the manifest holds after them: a row replaces the one with its id."""
    return list({each["object_id"]: each for rows in made for each in rows}.values())


@law(publishes(), st.integers(0, 8))
def test_catching_up_is_reading_anew(made: list[list[dict[str, Any]]], cut: int) -> None:
    cut = min(cut, len(made))
    early, late = made[:cut], made[cut:]
    base = reconstruct("main", cut, all_rows(early), stamp=3)
    anew = reconstruct("main", len(made), all_rows(made), stamp=3)

    assert advance(base, len(made), all_rows(late), stamp=3) == anew
    for version, rows in enumerate(late, cut + 1):
        base = advance(base, version, rows, stamp=3)
    assert base == anew
