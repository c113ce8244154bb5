"""A proxy in front of an S3 that makes chosen requests late, lost or doubled, as a network and a dying client do.

It runs in a process of its own, on a free port of the loopback interface, for as long as its standard input stays open.
`proxied` starts one; the `Proxy` it gives is told which requests to treat how.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

Action = Literal["hold", "drop_answer", "drop_request", "repeat", "delay"]
_PATIENCE = 60.0
_HOP_BY_HOP = ("connection", "transfer-encoding", "keep-alive")


@dataclass
class Rule:
    """What happens to requests whose method and path match patterns.

    `hold` keeps a request until it is released. `drop_answer` lets the store do the work, and the client never learns of
    it. `drop_request` closes the connection before the store hears of it. `repeat` hands the request to the store again, a
    moment after the first one was answered. `delay` hands it on later.
    """

    action: Action
    method: str
    pattern: str
    times: int = 1
    """How many requests it applies to; each of them counts, those of a client that tries again as well."""
    skip: int = 0
    """How many matching requests pass before."""
    every: int = 1
    """Of what is left, only each so-manieth."""
    seconds: float = 0.5
    seen: int = 0
    """Matching requests so far."""


@dataclass
class Event:
    """A request that a rule applied to."""

    action: str
    method: str
    path: str
    status: int | None = None
    """What the store answered; None before it did, and if it was never asked."""


class Proxy:
    """The handle of a test on its proxy."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"

    def apply(self, action: Action, method: str, pattern: str, **settings: Any) -> None:
        """Treat requests whose method and path match patterns in a way, besides earlier rules."""
        self._ask({"rule": asdict(Rule(action, method, pattern, **settings))})

    def events(self) -> list[Event]:
        """What rules applied to so far, in order."""
        return [Event(**entry) for entry in self._ask({"events": True})]

    def await_event(self, action: Action, count: int = 1) -> Event:
        """Wait until a rule has applied."""
        return self._await(lambda event: event.action == action, count)

    def release(self) -> list[Event]:
        """Let every held request go, and wait until the store has answered each."""
        self._ask({"release": True})
        held = [event for event in self.events() if event.action == "hold"]
        self._await(lambda event: event.action == "hold" and event.status is not None, len(held))
        return [event for event in self.events() if event.action == "hold"]

    def clear(self) -> None:
        """Pass requests from now on, and forget what happened; what is held stays held."""
        self._ask({"clear": True})

    def _await(self, matches: Any, count: int) -> Event:
        deadline = time.monotonic() + _PATIENCE
        while True:
            matching = [event for event in self.events() if matches(event)]
            if len(matching) >= count:
                return matching[-1] if matching else Event("none", "", "")
            assert time.monotonic() < deadline, f"no rule applied {count} times: {self.events()}"
            time.sleep(0.02)

    def _ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def proxied(endpoint: str) -> Iterator[Proxy]:
    """A proxy in front of an endpoint."""
    pipe = subprocess.PIPE
    command = [sys.executable, __file__, endpoint]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Proxy(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


# In the process of the proxy ---------------------------------------------------------------------------------------


@dataclass
class State:
    """The rules and what came of them, shared by the threads of the proxy."""

    host: str
    rules: list[Rule] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    held: list[threading.Event] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def match(self, method: str, path: str) -> tuple[Rule, Event, threading.Event] | None:
        """The first rule that applies to a request, used up by one."""
        with self.lock:
            for rule in self.rules:
                if rule.times == 0 or not re.fullmatch(rule.method, method) or not re.search(rule.pattern, path):
                    continue
                rule.seen += 1
                if rule.seen <= rule.skip or (rule.seen - rule.skip - 1) % rule.every:
                    continue
                rule.times -= 1
                event, gate = Event(rule.action, method, path), threading.Event()
                self.events.append(event)
                if rule.action == "hold":
                    self.held.append(gate)
                return rule, event, gate
        return None

    def answer(self, question: dict[str, Any]) -> Any:
        with self.lock:
            if "rule" in question:
                self.rules.append(Rule(**question["rule"]))
            elif "clear" in question:
                self.rules.clear()
                self.events = [event for event in self.events if event.action == "hold" and event.status is None]
            elif "release" in question:
                for gate in self.held:
                    gate.set()
            elif "events" in question:
                return [asdict(event) for event in self.events]
        return True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def handle_request(self) -> None:
        body = self._body()
        path = unquote(urlsplit(self.path).path)
        applied = self.state.match(self.command, path)
        if applied is None:
            self._pass_on(*self._forward(body))
            return
        rule, event, gate = applied
        if rule.action == "drop_request":
            self.close_connection = True
            return
        if rule.action == "hold":
            gate.wait()
        if rule.action == "delay":
            time.sleep(rule.seconds)
        response, content = self._forward(body)
        event.status = response.status
        if rule.action == "repeat":
            time.sleep(rule.seconds / 10)
            self._forward(body)
        if rule.action == "drop_answer":
            self.close_connection = True
            return
        self._pass_on(response, content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_request  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding"):
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _forward(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        connection = http.client.HTTPConnection(self.state.host, timeout=_PATIENCE)
        try:
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def _pass_on(self, response: http.client.HTTPResponse, content: bytes) -> None:
        try:
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in (*_HOP_BY_HOP, "content-length", "server", "date"):
                    self.send_header(name, value)
            length = response.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the client is dead


def main() -> None:
    state = State(urlsplit(sys.argv[1]).netloc)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"state": state}))
    server.daemon_threads = True
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for line in sys.stdin:
        print(json.dumps(state.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
