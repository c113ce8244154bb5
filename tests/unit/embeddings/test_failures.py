"""Providers that misbehave: what is tried again, what is not, and what an error says and keeps to itself."""

import shutil
import socket
import ssl
import subprocess
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from omnigraph_sql.errors import EmbeddingFailed
from tests.unit.embeddings.provider import KEY, Answer, Provider, Raw, Reply, client, gemini, openai, serving


def fails(provider: Provider, name: str = "openai", texts: list[str] | None = None, **settings: Any) -> EmbeddingFailed:
    """The error of a call that must fail."""
    with serving(provider), pytest.raises(EmbeddingFailed) as caught:
        client(provider, name, **settings).embed(texts or ["tides"], dimension=2)
    assert caught.value.provider == name
    return caught.value


def entries(*embeddings: Any) -> Reply:
    return Reply(body={"data": [{"index": at, "embedding": each} for at, each in enumerate(embeddings)]})


# Passing failures


@pytest.mark.parametrize(
    "hiccup",
    [
        Reply(429, {"error": {"message": "slow down"}}),
        Reply(429, b""),
        Reply(500, b"<html>oops</html>", {"Content-Type": "text/html"}),
        Reply(502, b"bad gateway"),
        Reply(503, {"error": "overloaded"}),
        Reply(599, {}),
        Raw(),
        Raw((b"HTTP/1.1 200 OK\r\nContent-Le",)),
        Raw((b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"data": [',)),
        Raw((b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"dat',)),
        Raw((b"this is no HTTP\r\n\r\n",)),
    ],
    ids=repr,
)
def test_a_passing_failure_is_tried_again(hiccup: Answer) -> None:
    with serving(Provider(hiccup, hiccup)) as provider:
        vectors = client(provider).embed(["tides"], dimension=2)

    assert len(provider.seen) == 3
    assert vectors.shape == (1, 2)


@pytest.mark.parametrize(
    ("hiccup", "status", "text"),
    [
        (Reply(429, {"error": {"message": "slow down"}}), 429, "answered 429: slow down"),
        (Reply(503, b"<html></html>"), 503, "answered 503"),
        (Raw(), None, "broke off the connection before its answer was complete"),
    ],
)
def test_attempts_are_limited(hiccup: Answer, status: int | None, text: str) -> None:
    provider = Provider(usual=hiccup)

    error = fails(provider, attempts=3)

    assert len(provider.seen) == 3
    assert (error.status, error.attempts, error.retryable) == (status, 3, True)
    assert error.message == f"the embedding provider openai {text} (after 3 attempts)"


def test_a_server_that_is_not_there() -> None:
    with serving(Provider()) as provider:
        pass  # its port is free again

    with pytest.raises(EmbeddingFailed, match="openai cannot be reached: Connection refused") as caught:
        client(provider, attempts=2).embed(["tides"], dimension=2)

    assert (caught.value.status, caught.value.attempts, caught.value.retryable) == (None, 2, True)
    assert caught.value.hint == f"check OMNIGRAPH_EMBED_BASE_URL and the network; it is {provider.url}/embeddings"


def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(EmbeddingFailed, match="cannot be found: its host name does not resolve") as caught:
        client(Provider(), base_url="http://nobody.invalid/v1", attempts=2).embed(["tides"], dimension=2)

    assert caught.value.retryable


def test_a_slow_answer_is_given_up_and_asked_for_again() -> None:
    with serving(Provider(Reply(body={}, pause=5.0))) as provider:
        client(provider, timeout_ms=1000).embed(["tides"], dimension=2)

    assert len(provider.seen) == 2


def test_pauses_double() -> None:
    with serving(Provider(*[Reply(500, {})] * 3)) as provider:
        client(provider, backoff_ms=50).embed(["tides"], dimension=2)

    first, second, third = provider.gaps
    assert first >= 0.05
    assert second >= 0.1
    assert third >= 0.2


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_may_ask_for_a_longer_pause(status: int) -> None:
    with serving(Provider(Reply(status, {}, {"Retry-After": "1"}))) as provider:
        client(provider).embed(["tides"], dimension=2)

    assert provider.gaps[0] >= 1.0


def test_a_server_may_name_the_moment() -> None:
    def busy(_: Any) -> Reply:
        soon = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 2))
        return Reply(429, {}, {"Retry-After": soon})

    with serving(Provider(busy)) as provider:
        client(provider).embed(["tides"], dimension=2)

    assert provider.gaps[0] >= 0.9


@pytest.mark.parametrize(
    "value", ["", "soon", "-5", "1e9", "Fri, 99 Foo 2020 99:99:99 GMT", "Wed, 21 Oct 2015 07:28:00 GMT"]
)
def test_a_pause_that_makes_no_sense_is_ignored(value: str) -> None:
    with serving(Provider(Reply(429, {}, {"Retry-After": value}))) as provider:
        client(provider).embed(["tides"], dimension=2)

    assert len(provider.seen) == 2


# Lasting failures


@pytest.mark.parametrize("status", [201, 204, 301, 302, 307, 308, 400, 401, 403, 404, 408, 409, 413, 418, 422])
def test_other_answers_are_final(status: int) -> None:
    provider = Provider(usual=Reply(status, b"", {"Location": "http://127.0.0.1:1/elsewhere"}))

    error = fails(provider)

    assert len(provider.seen) == 1
    assert (error.status, error.attempts, error.retryable) == (status, 1, False)
    assert error.message == f"the embedding provider openai answered {status}"


@pytest.mark.parametrize(
    ("name", "status", "hint"),
    [
        ("openai", 401, "check the key in OPENAI_API_KEY"),
        ("openai-compatible", 403, "check the key in OPENROUTER_API_KEY or OPENAI_API_KEY"),
        ("gemini", 404, "check OMNIGRAPH_EMBED_MODEL, which is small, and OMNIGRAPH_EMBED_BASE_URL"),
        ("openai", 302, "it points to another address; set OMNIGRAPH_EMBED_BASE_URL to the final one"),
    ],
)
def test_a_refusal_says_what_to_do(name: str, status: int, hint: str) -> None:
    assert fails(Provider(usual=Reply(status, {})), name).hint == hint


def test_a_redirect_is_not_followed() -> None:
    with serving(Provider()) as other:
        fails(Provider(usual=Reply(307, b"", {"Location": f"{other.url}/embeddings"})))

    assert other.seen == []


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(body=b"{"), "is not JSON"),
        (Reply(body=b""), "is not JSON"),
        (Reply(body=b"\xff\xfe"), "is not JSON"),
        (Reply(body=b"[" * 100_000), "is not JSON"),
        (Reply(body=b"<html>Welcome</html>", headers={"Content-Type": "text/html"}), "is not JSON"),
        (Reply(body=b"x" * 50, headers={"Content-Encoding": "gzip"}), "is not packed the way it says"),
        (Reply(body=[]), "has no array `data`"),
        (Reply(body={"data": {}}), "has no array `data`"),
        (Reply(body={"data": [[1.0, 2.0]]}), "has an entry of `data` without an `index`"),
        (Reply(body={"data": [{"embedding": [1.0, 2.0]}]}), "has an entry of `data` without an `index`"),
        (Reply(body={"data": [{"index": False, "embedding": [1.0, 2.0]}]}), "has an entry of `data` without an `index`"),
        (Reply(body={"data": [{"index": 1, "embedding": [1.0, 2.0]}]}), "the `index` 1, where each of 0 to 0 is expected"),
        (Reply(body={"data": [{"index": -1, "embedding": [1.0, 2.0]}]}), "the `index` -1, where each of 0 to 0"),
        (Reply(body={"data": []}), "has vectors for 0 of 1 texts"),
        (entries([1.0, 2.0], [3.0, 4.0]), "the `index` 1, where each of 0 to 0"),
        (entries([1.0]), "has a vector that has 1 dimensions, not 2"),
        (entries([1.0, 2.0, 3.0]), "has a vector that has 3 dimensions, not 2"),
        (entries(None), "has a vector that is not an array of numbers"),
        (entries("AACAPwAAAEA="), "has a vector that is not an array of numbers"),
        (entries(["1.0", "2.0"]), "has a vector that holds something other than numbers"),
        (entries(["NaN", 1.0]), "has a vector that holds something other than numbers"),
        (entries([True, 1.0]), "has a vector that holds something other than numbers"),
        (entries([None, 1.0]), "has a vector that holds something other than numbers"),
        (entries([[1.0], [2.0]]), "has a vector that holds something other than numbers"),
        (entries([float("nan"), 1.0]), "has a vector that holds a number that is not finite"),
        (entries([float("inf"), 1.0]), "has a vector that holds a number that is not finite"),
        (Reply(body=b'{"data": [{"index": 0, "embedding": [1e999, 1]}]}'), "holds a number that is not finite"),
        (entries([10**400, 1]), "holds a number that is not finite"),
        (entries([1e200, 1.0]), "has a vector that holds numbers that are too large"),
        (entries([0.0, 0.0]), "has a vector that is zero"),
        (entries([1e-8, 0.0]), "has a vector that is zero, or so short"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_malformed_answer_is_final(reply: Reply, text: str) -> None:
    provider = Provider(usual=reply)

    error = fails(provider)

    assert len(provider.seen) == 1
    assert (error.status, error.attempts, error.retryable) == (200, 1, False)
    assert error.message.startswith("the embedding provider openai gave an answer that ")
    assert text in error.message
    assert error.hint == f"check that {provider.url}/embeddings is an embedding service of this kind"


@pytest.mark.parametrize("indices", [[0, 0], [0], [1, 2], [0, 1, 2]])
def test_every_text_has_exactly_one_vector(indices: list[int]) -> None:
    reply = Reply(body={"data": [{"index": index, "embedding": [1.0, 2.0]} for index in indices]})

    assert not fails(Provider(usual=reply), texts=["a", "b"]).retryable


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "has no object `embedding`"),
        ({"embedding": [1.0, 2.0]}, "has no object `embedding`"),
        ({"embedding": {}}, "has a vector that is not an array of numbers"),
        ({"embedding": {"values": [1.0]}}, "has 1 dimensions, not 2"),
        ({"embedding": {"values": ["x", 1.0]}}, "holds something other than numbers"),
    ],
)
def test_a_malformed_answer_of_gemini_is_final(body: Any, text: str) -> None:
    error = fails(Provider(usual=Reply(body=body)), "gemini")

    assert not error.retryable
    assert text in error.message


def test_an_answer_without_an_end_is_cut_off() -> None:
    flood = Raw((b"HTTP/1.1 200 OK\r\n\r\n", *[b" " * (1 << 20)] * 3))

    error = fails(Provider(usual=flood))

    assert "gave an answer that is larger than" in error.message
    assert not error.retryable


def test_a_refusal_of_any_length_is_understood() -> None:
    long = Reply(400, b'{"error": "' + b"x" * (1 << 20) + b'"}')
    with serving(Provider(long)) as provider:
        asking = client(provider)
        with pytest.raises(EmbeddingFailed, match=r"answered 400$"):
            asking.embed(["a"], dimension=2)

        assert asking.embed(["a"], dimension=2).shape == (1, 2)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "the input is too long"}},
        {"error": "the input is too long"},
        {"message": "the input is too long"},
        {"detail": "the input\n\tis too long"},
    ],
)
def test_what_the_provider_says_is_passed_on(body: Any) -> None:
    assert fails(Provider(usual=Reply(400, body))).message.endswith("answered 400: the input is too long")


def test_what_the_provider_says_is_kept_short_and_printable() -> None:
    message = fails(Provider(usual=Reply(400, {"error": "\x1b[31m" + "very " * 200}))).message

    assert len(message) < 300
    assert message.isprintable()


def test_the_first_of_several_requests_that_fails_ends_the_call() -> None:
    def picky(body: Any) -> Reply:
        return Reply(400, {"error": "no such text"}) if "text 100" in body["input"] else openai(body)

    error = fails(Provider(usual=picky), texts=[f"text {number}" for number in range(640)])

    assert error.message == "the embedding provider openai answered 400: no such text"


# The deadline


@pytest.mark.hangs_after(60)
def test_the_deadline_ends_a_request() -> None:
    error = fails(Provider(usual=Reply(body={}, pause=600.0)), deadline_ms=300)

    assert (error.attempts, error.retryable) == (1, True)
    assert "gave no complete answer within" in error.message
    assert error.message.endswith("; the deadline of 0.3 s allows no further attempt")


@pytest.mark.hangs_after(60)
def test_the_deadline_counts_the_pauses() -> None:
    provider = Provider(usual=Reply(500, {}))

    error = fails(provider, attempts=50, backoff_ms=100, deadline_ms=1000)

    assert error.attempts == len(provider.seen) < 6
    assert (error.status, error.retryable) == (500, True)


@pytest.mark.hangs_after(60)
def test_a_pause_beyond_the_deadline_is_not_begun() -> None:
    provider = Provider(usual=Reply(429, {}, {"Retry-After": "3600"}))

    error = fails(provider, deadline_ms=500_000)

    assert len(provider.seen) == 1
    assert error.message == "the embedding provider openai answered 429; the deadline of 500 s allows no further attempt"
    assert error.retryable


def test_there_need_not_be_a_deadline() -> None:
    with serving(Provider(Reply(500, {}), Reply(500, {}))) as provider:
        client(provider, deadline_ms=0).embed(["tides"], dimension=2)

    assert len(provider.seen) == 3


@pytest.mark.hangs_after(60)
@pytest.mark.parametrize(
    "drip",
    [
        Raw((b"HTTP/1.1 200 OK\r\nX-Slow: ", *[b"x"] * 12_000), pause=0.05),
        Raw((b"HTTP/1.1 200 OK\r\nContent-Length: 12000\r\n\r\n", *[b" "] * 12_000), pause=0.05),
        Raw((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1\r\n \r\n"] * 12_000), pause=0.05),
    ],
    ids=["headers", "body", "chunks"],
)
def test_a_trickle_does_not_stretch_the_time(drip: Raw) -> None:
    """All of it takes ten minutes."""
    error = fails(Provider(usual=drip), timeout_ms=400, attempts=1)

    assert error.message == "the embedding provider openai gave no complete answer within 0.4 s"


@pytest.mark.hangs_after(60)
def test_a_failed_call_does_not_wait_for_the_others() -> None:
    def uneven(body: Any) -> Reply:
        is_first = "text 0" in body["input"]
        return Reply(400, {"error": "no"}, pause=0.3) if is_first else Reply(429, {}, {"Retry-After": "600"})

    error = fails(Provider(usual=uneven), texts=[f"text {number}" for number in range(200)], deadline_ms=0)

    assert error.status == 400


# Secrets


def said(error: BaseException) -> str:
    """Everything an error shows, the errors behind it included."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))


@pytest.mark.parametrize("status", [400, 401, 500])
@pytest.mark.parametrize("name", ["openai", "gemini"])
def test_a_provider_that_quotes_the_key(status: int, name: str) -> None:
    spoken = f"Incorrect API key provided: {KEY}. Bearer {KEY}, or {KEY[:9]}****, or ****{KEY[-9:]} or '{KEY}'"

    error = fails(Provider(usual=Reply(status, {"error": {"message": spoken}})), name, attempts=2)

    assert "Incorrect API key provided:" in error.message
    assert not any(KEY[at : at + 8] in said(error) for at in range(len(KEY) - 7))


@pytest.mark.parametrize("answer", [Raw(), Reply(body=b"{"), Reply(302, b"")], ids=["cut", "malformed", "redirect"])
def test_other_failures_do_not_show_the_key(answer: Answer) -> None:
    assert KEY not in said(fails(Provider(usual=answer), attempts=1))


def test_short_keys_are_hidden_as_well() -> None:
    error = fails(Provider(usual=Reply(400, {"error": "the key abc is wrong"})), api_key="abc")

    assert error.message.endswith("answered 400: the key *** is wrong")


# Encryption


def test_a_server_without_encryption() -> None:
    with serving(Provider()) as provider:
        encrypted = provider.url.replace("http://", "https://")
        with pytest.raises(EmbeddingFailed, match="broke off the encrypted connection") as caught:
            client(provider, base_url=encrypted, attempts=2).embed(["tides"], dimension=2)

    assert (caught.value.attempts, caught.value.retryable) == (2, True)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_a_certificate_that_nobody_signed_is_final(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=120)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as plain, context.wrap_socket(plain, server_side=True) as listener:

        def shake_hands() -> None:
            with pytest.raises(ssl.SSLError):
                listener.accept()

        thread = threading.Thread(target=shake_hands)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/v1"
        with pytest.raises(EmbeddingFailed, match="shows a certificate that is not trusted: self") as caught:
            client(Provider(), base_url=url).embed(["tides"], dimension=2)
        thread.join()

    assert (caught.value.attempts, caught.value.retryable) == (1, False)


def test_gemini_fails_like_the_others() -> None:
    with serving(Provider(Reply(500, {}), usual=gemini)) as provider:
        assert client(provider, "gemini").embed(["tides"], dimension=2).shape == (1, 2)

    assert len(provider.seen) == 2
