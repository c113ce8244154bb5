"""What the client sends to a provider that behaves, and what it makes of the answers."""

import math
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from omnigraph_sql.embeddings import Role
from omnigraph_sql.errors import BadRequest, Configuration
from tests.unit.embeddings.provider import KEY, Provider, Reply, client, gemini, openai, serving, vector


def unit(text: str, dimension: int) -> npt.NDArray[np.float32]:
    """What becomes of the provider's vector."""
    values = vector(text, dimension)
    total = 0.0
    for value in values:
        total += value * value
    return np.array([value / math.sqrt(total) for value in values], np.float32)


@pytest.mark.parametrize("name", ["openai", "openai-compatible"])
def test_a_request_to_openai(name: str) -> None:
    with serving(Provider()) as provider:
        client(provider, name).embed(["tides", "locks"], dimension=5)

    (seen,) = provider.seen
    assert seen.path == "/v1/embeddings"
    assert seen.headers["Authorization"] == f"Bearer {KEY}"
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.body == {"model": "small", "input": ["tides", "locks"], "dimensions": 5}


@pytest.mark.parametrize(("role", "task"), [("query", "RETRIEVAL_QUERY"), ("document", "RETRIEVAL_DOCUMENT")])
@pytest.mark.parametrize("model", ["tiny", "models/tiny"])
def test_a_request_to_gemini(role: Role, task: str, model: str) -> None:
    with serving(Provider(usual=gemini)) as provider:
        vectors = client(provider, "gemini", model=model).embed(["tides"], dimension=5, role=role)

    (seen,) = provider.seen
    assert seen.path == "/v1/models/tiny:embedContent"
    assert seen.headers["x-goog-api-key"] == KEY
    assert "Authorization" not in seen.headers
    assert seen.body == {
        "model": "models/tiny",
        "content": {"parts": [{"text": "tides"}]},
        "taskType": task,
        "outputDimensionality": 5,
    }
    assert vectors.tolist() == [unit("tides", 5).tolist()]


def test_gemini_is_asked_for_one_text_at_a_time() -> None:
    texts = [f"text {number}" for number in range(10)]
    with serving(Provider(usual=gemini)) as provider:
        vectors = client(provider, "gemini").embed(texts, dimension=3)

    assert len(provider.seen) == 10
    assert vectors.tolist() == [unit(text, 3).tolist() for text in texts]


def test_vectors_belong_to_their_texts_and_have_length_one() -> None:
    # This provider answers in the opposite order.
    texts = [f"text {number}" for number in range(64)]
    with serving(Provider()) as provider:
        vectors = client(provider).embed(texts, dimension=7)

    assert vectors.dtype == np.float32
    assert vectors.shape == (64, 7)
    assert vectors.tolist() == [unit(text, 7).tolist() for text in texts]


def test_whole_numbers_are_numbers() -> None:
    with serving(Provider(Reply(body={"data": [{"index": 0, "embedding": [3, 4]}]}))) as provider:
        assert client(provider).embed(["x"], dimension=2).tolist() == [[np.float32(0.6), np.float32(0.8)]]


def test_at_most_64_texts_go_into_one_request() -> None:
    texts = [f"text {number}" for number in range(150)]
    with serving(Provider()) as provider:
        vectors = client(provider).embed(texts, dimension=3)

    assert sorted(len(seen.body["input"]) for seen in provider.seen) == [22, 64, 64]
    assert provider.texts == sorted(texts)
    assert vectors.tolist() == [unit(text, 3).tolist() for text in texts]


def test_long_texts_go_into_requests_of_their_own() -> None:
    texts = [letter * 200_000 for letter in "abc"] + ["d"]
    with serving(Provider()) as provider:
        client(provider).embed(texts, dimension=3)

    assert sorted(len(seen.body["input"]) for seen in provider.seen) == [1, 1, 2]


def test_equal_texts_are_asked_for_once() -> None:
    with serving(Provider()) as provider:
        vectors = client(provider).embed(["a", "b", "a", "a"], dimension=4)

    assert provider.texts == ["a", "b"]
    assert vectors.tolist() == [unit(text, 4).tolist() for text in "abaa"]


def test_nothing_is_asked_for_nothing() -> None:
    with serving(Provider()) as provider:
        assert client(provider).embed([], dimension=4).shape == (0, 4)

    assert provider.seen == []


def test_texts_may_hold_anything() -> None:
    texts = ["", " ", "\n\x00", "港 🚢", '"\\', "x" * 10_000]
    with serving(
        Provider(
            usual=lambda body: Reply(
                body={"data": [{"index": at, "embedding": [1.0, float(at)]} for at in range(len(body["input"]))]}
            )
        )
    ) as provider:
        client(provider).embed(texts, dimension=2)

    assert provider.seen[0].body["input"] == texts


def test_a_text_that_is_no_text_is_refused() -> None:
    with serving(Provider()) as provider, pytest.raises(BadRequest, match="half of a surrogate pair"):
        client(provider).embed(["\ud800"], dimension=2)


# The cache


def test_texts_asked_for_before_are_remembered() -> None:
    with serving(Provider()) as provider:
        asking = client(provider)
        first = asking.embed(["a", "b"], dimension=4)
        again = asking.embed(["b", "c", "a"], dimension=4)

    assert [seen.body["input"] for seen in provider.seen] == [["a", "b"], ["c"]]
    assert again[[2, 0]].tolist() == first.tolist()


def test_role_and_dimension_are_told_apart() -> None:
    with serving(Provider()) as provider:
        asking = client(provider)
        asking.embed(["a"], dimension=4)
        asking.embed(["a"], dimension=5)
        asking.embed(["a"], dimension=4, role="query")
        asking.embed(["a"], dimension=4, role="query")

    assert len(provider.seen) == 3


def test_the_memory_is_bounded_and_forgets_what_was_not_used_for_longest() -> None:
    with serving(Provider()) as provider:
        asking = client(provider, cache_bytes=3 * (4 * 4 + 400))
        for text in ["a", "b", "c", "a", "d", "a", "b"]:
            asking.embed([text], dimension=4)

    assert [seen.body["input"][0] for seen in provider.seen] == ["a", "b", "c", "d", "b"]


def test_what_a_caller_does_to_its_vectors_is_its_own_affair() -> None:
    with serving(Provider()) as provider:
        asking = client(provider)
        asking.embed(["a"], dimension=4)[:] = 0.0

        assert asking.embed(["a"], dimension=4).tolist() == [unit("a", 4).tolist()]


def test_what_arrived_before_a_failure_is_remembered() -> None:
    refused = threading.Event()

    def grudging(body: Any) -> Reply:
        if "text 70" in body["input"] and not refused.is_set():
            refused.set()
            return Reply(400, {"error": "no"}, pause=0.5)
        return openai(body)

    texts = [f"text {number}" for number in range(80)]
    with serving(Provider(usual=grudging)) as provider:
        asking = client(provider)
        with pytest.raises(Exception, match="answered 400"):
            asking.embed(texts, dimension=3)
        asking.embed(texts, dimension=3)

    assert len(provider.seen) == 3
    assert len(provider.seen[-1].body["input"]) == 16


# Connections


def test_connections_are_kept_open() -> None:
    with serving(Provider()) as provider:
        asking = client(provider)
        for text in "abc":
            asking.embed([text], dimension=3)
        asking.close()
        asking.embed(["d"], dimension=3)

    ports = [seen.connection for seen in provider.seen]
    assert len(set(ports[:3])) == 1
    assert ports[3] != ports[2]


def test_connections_are_kept_open_after_long_answers() -> None:
    with serving(Provider()) as provider:
        asking = client(provider)
        for text in "abc":
            asking.embed([text], dimension=20_000)

    assert len({seen.connection for seen in provider.seen}) == 1


def test_many_threads_can_share_a_client() -> None:
    texts = [f"text {number}" for number in range(60)]
    with serving(Provider()) as provider:
        asking = client(provider)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda at: asking.embed(texts[at : at + 5], dimension=6), range(55)))

    for at, vectors in enumerate(found):
        assert vectors.tolist() == [unit(text, 6).tolist() for text in texts[at : at + 5]]


def test_a_proxy_is_used_where_the_environment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Provider()) as provider:
        host = provider.url.removeprefix("http://").removesuffix("/v1")
        monkeypatch.setenv("http_proxy", f"http://ship:p%40ss@{host}")
        far = client(provider, base_url="http://provider.invalid/v1")
        far.embed(["a"], dimension=3)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        client(provider).embed(["b"], dimension=3)

    through, directly = provider.seen
    assert through.path == "http://provider.invalid/v1/embeddings"
    assert through.headers["Proxy-Authorization"] == "Basic c2hpcDpwQHNz"
    assert directly.path == "/v1/embeddings"
    assert "Proxy-Authorization" not in directly.headers


def test_a_proxy_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://user:hidden@127.0.0.1:1")

    with pytest.raises(Configuration, match="the proxy that the environment names") as caught:
        client(Provider(), base_url="http://provider.invalid/v1").embed(["a"], dimension=3)

    assert "hidden" not in str(caught.value)


def test_the_http_library_waits_until_it_is_needed() -> None:
    script = (
        "import sys, omnigraph_sql.embeddings as e\n"
        "e.Client(e.resolve('mock')).embed(['x'], dimension=2)\n"
        "e.Client(e.resolve('openai', api_key='k'))\n"
        "print('urllib3' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)

    assert run.stdout == "False\n"
