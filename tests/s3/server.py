"""An S3 on a free port of the loopback interface, for as long as standard input stays open. Prints the port.

With the argument `unconditional` it ignores the conditions of conditional writes, as some stores do.

Requests are served one after the other: moto looks and writes in two steps, and conditional writes must be atomic.
"""

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

_CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")
_turn = threading.Lock()
_app = create_backend_app("s3")  # at once, and not anew for every request, for which moto looks through its directories


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept, as a real store keeps them

    def log(self, type: str, message: str, *args: Any) -> None:
        """Nothing is logged."""


def serve(environment: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    if "unconditional" in sys.argv:
        environment = {name: value for name, value in environment.items() if name not in _CONDITIONS}
    with _turn:
        return [b"".join(_app(environment, start_response))]


def main() -> None:
    server = make_server("127.0.0.1", 0, serve, threaded=True, request_handler=Handler)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
