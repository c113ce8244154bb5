"""The HTTP transport, with limits on time and size. No other module imports the HTTP library."""

from __future__ import annotations

import email.utils
import http.client
import io
import json
import socket
import ssl
import time
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import DecodeError, HTTPError, NameResolutionError, NewConnectionError, ProxyError, SSLError
from urllib3.exceptions import TimeoutError as TimedOut

from omnigraph_sql._version import __version__
from omnigraph_sql.embeddings.providers import MalformedAnswer, ProviderRequest
from omnigraph_sql.errors import Configuration

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_REFUSAL_BYTES = 64 << 10
"""The maximum number of bytes read from an error response."""
_POOL_SIZE = 32
"""The maximum number of idle connections; each thread may use one."""
_BROKEN_OFF = "broke off the connection before its answer was complete"


class NoAnswer(Exception):
    """There is no response. The text is the reason; `passing` is True if a retry may succeed."""

    def __init__(self, text: str, *, passing: bool = True) -> None:
        super().__init__(text)
        self.passing = passing


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    retry_after: float | None = None
    """Seconds to wait before a retry, from the response header."""


class Transport:
    """A connection pool for one server. Thread-safe."""

    def __init__(self, base_url: str) -> None:
        self._pools = _pools(base_url)

    def post(self, request: ProviderRequest, *, seconds: float, largest: int) -> Answer:
        """Send a request without retries. Connecting, sending and reading up to `largest` bytes take at most `seconds`.

        Redirects are not followed: that would send the key and the texts to another server.
        """
        try:
            response = self._pools.request(
                "POST",
                request.url,
                body=json.dumps(request.document).encode(),
                headers={
                    "Content-Type": "application/json",
                    "Accept": "application/json",
                    "User-Agent": f"omnigraph-sql/{__version__}",
                    **request.headers,
                },
                timeout=urllib3.Timeout(total=seconds),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            return _read(response, largest)
        except DecodeError:
            raise MalformedAnswer("is not packed the way it says") from None
        except HTTPError as error:
            raise _no_answer(error, seconds) from None

    def close(self) -> None:
        self._pools.clear()


def _read(response: urllib3.BaseHTTPResponse, largest: int) -> Answer:
    is_success = response.status == http.client.OK
    try:
        body = response.read((largest if is_success else _REFUSAL_BYTES) + 1)
        if is_success and len(body) > largest:
            raise MalformedAnswer(f"is larger than {largest} bytes")
        if is_success and not body and "Content-Length" not in response.headers:
            raise NoAnswer(_BROKEN_OFF)  # the connection broke between two headers, which looks like an empty response
    except BaseException:
        response.close()
        raise
    if not is_success and len(body) > _REFUSAL_BYTES:
        response.close()  # the unread rest would precede the next response
    response.release_conn()
    return Answer(response.status, body, _seconds(response.headers.get("Retry-After")))


def _seconds(retry_after: str | None) -> float | None:
    """Convert a number of seconds or a date to seconds from now."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _no_answer(error: HTTPError, seconds: float) -> NoAnswer:
    if isinstance(error, ProxyError):
        return NoAnswer(f"cannot be reached through the proxy: {type(error.original_error).__name__}")
    if isinstance(error, SSLError):
        cause = error.args[0] if error.args else None
        if isinstance(cause, ssl.SSLCertVerificationError):
            return NoAnswer(f"shows a certificate that is not trusted: {cause.verify_message}", passing=False)
        return NoAnswer("broke off the encrypted connection")
    if isinstance(error, NameResolutionError):
        return NoAnswer("cannot be found: its host name does not resolve")
    if isinstance(error, NewConnectionError):
        cause = error.__cause__
        return NoAnswer(f"cannot be reached: {getattr(cause, 'strerror', None) or 'no connection'}")
    if isinstance(error, TimedOut):
        return NoAnswer(f"gave no complete answer within {seconds:.3g} s")
    return NoAnswer(_BROKEN_OFF)


# Connections ---------------------------------------------------------------------------------------------------------


class _TimedReader(io.RawIOBase):
    """A reader of a socket that applies the timeout of the socket to all reads together instead of to each read."""

    def __init__(self, stream: io.RawIOBase, connection: socket.socket) -> None:
        self._stream = stream
        self._connection = connection
        seconds = connection.gettimeout()
        self._ends = None if seconds is None else time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        if self._ends is not None:
            remaining = self._ends - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("timed out")
            self._connection.settimeout(remaining)
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_TimedReader(self.fp.detach(), sock))


class _Connection(HTTPConnection):
    response_class = _TimedResponse


class _SecureConnection(HTTPSConnection):
    response_class = _TimedResponse


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def _pools(base_url: str) -> urllib3.PoolManager:
    proxy = _proxy(base_url)
    options: dict[str, Any] = {"num_pools": 1, "maxsize": _POOL_SIZE}
    if proxy is None:
        pools = urllib3.PoolManager(**options)
    else:
        address = urlsplit(proxy)
        user = f"{unquote(address.username or '')}:{unquote(address.password or '')}"
        headers = urllib3.make_headers(proxy_basic_auth=user) if address.username is not None else None
        pools = urllib3.ProxyManager(proxy, proxy_headers=headers, **options)
    pools.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return pools


def _proxy(base_url: str) -> str | None:
    """Return the proxy of the environment for an address: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, except for NO_PROXY."""
    address = urlsplit(base_url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(address.netloc):
        return None
    if urlsplit(proxy).scheme not in ("http", "https"):
        text = "the proxy that the environment names for the embedding provider is not an http:// or https:// address"
        raise Configuration(text, what="proxy", hint=f"set {address.scheme.upper()}_PROXY, or NO_PROXY={address.hostname}")
    return proxy
