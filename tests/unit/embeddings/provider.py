"""A provider on the loopback interface that answers as it is told, also badly."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

from omnigraph_sql.embeddings import Client, resolve

KEY = "sk-test-5f0c1e7a9b3d"
Wait = Callable[[float], object]


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    path: str
    headers: Message
    body: Any
    moment: float
    connection: tuple[str, int]


@dataclass(frozen=True)
class Reply:
    """An answer, sent as it stands. `pause` is the time before its first byte."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0.0

    def send(self, handler: BaseHTTPRequestHandler, wait: Wait) -> None:
        wait(self.pause)
        data = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        handler.send_response(self.status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **self.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)


@dataclass(frozen=True)
class Raw:
    """Bytes without any manners: pieces with a pause after each, then the connection is cut."""

    pieces: tuple[bytes, ...] = ()
    pause: float = 0.0

    def send(self, handler: BaseHTTPRequestHandler, wait: Wait) -> None:
        for piece in self.pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()
            wait(self.pause)
        handler.close_connection = True


Answer = Reply | Raw | Callable[[Any], Reply]


def vector(text: str, dimension: int) -> list[float]:
    """Some vector for a text, not of length 1, different for different texts."""
    return [float(len(text) + 1), *(float(at % 7) - ord(text[at % len(text)]) / 100 for at in range(dimension - 1))]


def openai(body: Any) -> Reply:
    """What OpenAI answers, with the vectors in no particular order."""
    texts = body["input"]
    entries = [{"index": at, "embedding": vector(text, body["dimensions"])} for at, text in enumerate(texts)]
    return Reply(body={"object": "list", "data": entries[::-1], "model": body["model"]})


def gemini(body: Any) -> Reply:
    """What Gemini answers."""
    (part,) = body["content"]["parts"]
    return Reply(body={"embedding": {"values": vector(part["text"], body["outputDimensionality"])}})


class Provider:
    """Answers with each of `script` in turn, then with `usual` for ever."""

    def __init__(self, *script: Answer, usual: Answer = openai) -> None:
        self.seen: list[Seen] = []
        self._script = list(script)
        self._usual = usual
        self._lock = threading.Lock()
        self.url = ""
        self.closing = threading.Event()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        seen = Seen(handler.path, handler.headers, body, time.monotonic(), handler.client_address)
        with self._lock:
            self.seen.append(seen)
            answer = self._script.pop(0) if self._script else self._usual
        (answer(body) if callable(answer) else answer).send(handler, self.closing.wait)

    @property
    def texts(self) -> list[str]:
        """All texts that arrived, sorted."""
        return sorted(text for seen in self.seen for text in seen.body["input"])

    @property
    def gaps(self) -> list[float]:
        """Seconds between one request and the next."""
        moments = [seen.moment for seen in self.seen]
        return [later - earlier for earlier, later in pairwise(moments)]


@contextmanager
def serving(provider: Provider) -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            provider.answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            """Tests are quiet."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # a client that went away is no surprise here
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True  # a client may keep its connection open
    provider.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield provider
    finally:
        provider.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def client(provider: Provider, name: str = "openai", *, cache_bytes: int = 1 << 20, **settings: Any) -> Client:
    """A client of the provider, in a hurry."""
    quick = {"backoff_ms": 1, "api_key": KEY, "base_url": provider.url, "model": "small", "environ": {}, **settings}
    return Client(resolve(name, **quick), cache_bytes=cache_bytes)
