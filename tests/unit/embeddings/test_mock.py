"""The mock: the same vector for the same text and dimension, everywhere and always."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_sql.embeddings import Client, resolve

MASK = 2**64 - 1


def reference(text: str, dimension: int) -> list[np.float32]:
    """The definition, one number after the other."""
    seed = 0xCBF29CE484222325
    for byte in text.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & MASK
    values = []
    for _ in range(dimension):
        seed = (seed ^ (seed << 13)) & MASK
        seed ^= seed >> 7
        seed = (seed ^ (seed << 17)) & MASK
        values.append(2.0 * (float(seed) / float(MASK)) - 1.0)
    total = 0.0
    for value in values:
        total += value * value
    return [np.float32(value / math.sqrt(total)) for value in values]


def mock() -> Client:
    return Client(resolve("mock", environ={}))


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5), dimension=st.integers(1, 70))
def test_every_bit_is_as_defined(texts: list[str], dimension: int) -> None:
    vectors = mock().embed(texts, dimension=dimension)

    expected = np.array([reference(text, dimension) for text in texts], np.float32).reshape(len(texts), dimension)
    assert vectors.dtype == np.float32
    assert vectors.tobytes() == expected.tobytes()


def test_a_known_vector() -> None:
    # Written down once: stored vectors must still fit after an upgrade.
    expected = np.array([0.5327424, 0.77475107, -0.340509], np.float32)

    assert mock().embed(["tides"], dimension=3)[0].tolist() == expected.tolist()


@pytest.mark.parametrize("dimension", [1536, 3072])
def test_usual_dimensions_and_many_texts(dimension: int) -> None:
    texts = [f"text {number}" for number in range(40)]

    vectors = mock().embed(texts, dimension=dimension)

    assert vectors[17].tolist() == [float(value) for value in reference("text 17", dimension)]
    assert np.allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1.0)
    assert len(np.unique(vectors, axis=0)) == len(texts)


def test_another_process_computes_the_same() -> None:
    script = (
        "from omnigraph_sql.embeddings import Client, resolve\n"
        "print(Client(resolve('mock')).embed(['harbour Ä 港'], dimension=16).tobytes().hex())"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)

    assert run.stdout.strip() == mock().embed(["harbour Ä 港"], dimension=16).tobytes().hex()


def test_the_role_makes_no_difference() -> None:
    query, document = (mock().embed(["tides"], dimension=8, role=role) for role in ("query", "document"))

    assert query.tolist() == document.tolist()
