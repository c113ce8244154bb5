"""The wire protocol between a graph handle and the child processes that run its isolated statements.

A message is a kind, a length and that many bytes. Requests are pickled: the parent, which writes them, is trusted. Replies
are not, because the child has run an untrusted statement: rows are Arrow IPC, errors are JSON.
"""

from __future__ import annotations

import datetime
import decimal
import json
import pickle
import socket
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph_sql import errors
from omnigraph_sql.arguments import raised
from omnigraph_sql.errors import BadRequest, Internal, OmnigraphError
from omnigraph_sql.runtime.limits import RunLimits
from omnigraph_sql.sql.refs import StateRef

READY: Final = b"R"
REQUEST: Final = b"Q"
SCHEMA: Final = b"S"
BATCH: Final = b"B"
END: Final = b"E"
ERROR: Final = b"X"
_PLAIN: Final = frozenset(
    {type(None), bool, int, float, str, bytes, bytearray, datetime.date, datetime.timedelta, decimal.Decimal, uuid.UUID}
)

ELSEWHERE: Final = "<object>"
"""Stands for the name of an embedder that is an object of the parent."""

_HEADER: Final = struct.Struct("!cQ")
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class ForeignRegistration:
    """A foreign table of the parent: its source, or its rows as an Arrow table."""

    name: str
    source: Any
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class IsolatedRequest:
    """A statement for a child process."""

    uri: str
    schema_hash: str
    text: str
    params: Mapping[str, Any]
    default_state: StateRef
    """The state of names without a schema."""
    pinned: StateRef
    """The default state with a fixed version, so that the child reads the same snapshot."""
    engine: str
    limits: RunLimits
    foreign: tuple[ForeignRegistration, ...] = ()
    files: tuple[Path, ...] = ()
    """Files with named queries."""
    embedder: str | None = None


def send(channel: socket.socket, kind: bytes, payload: bytes | memoryview = b"") -> None:
    """Send a message."""
    channel.sendall(_HEADER.pack(kind, len(payload)))
    if len(payload):
        channel.sendall(payload)


def receive(channel: socket.socket, most: int | None = None) -> tuple[bytes, bytearray] | None:
    """Receive a message; None if the other process has ended. Raises `ValueError` if it has more than `most` bytes."""
    header = _received(channel, _HEADER.size)
    if header is None:
        return None
    kind, size = _HEADER.unpack(header)
    if most is not None and size > most:
        raise ValueError(f"a message of {size} bytes")
    payload = _received(channel, size)
    return None if payload is None else (kind, payload)


def _received(channel: socket.socket, size: int) -> bytearray | None:
    payload = bytearray(size)
    view, at = memoryview(payload), 0
    while at < size:
        try:
            count = channel.recv_into(view[at : at + _PIECE])
        except ConnectionError:
            return None
        if not count:
            return None
        at += count
    return payload


def packed_request(request: IsolatedRequest) -> bytes:
    """Serialize a request."""
    try:
        return pickle.dumps(request)
    except Exception as error:
        raise _error_for_pickle(error) from None


def read_request(payload: bytes | bytearray) -> IsolatedRequest:
    """Deserialize a request, in the child process."""
    try:
        request = pickle.loads(payload)
    except Exception as error:
        raise _error_for_pickle(error) from None
    assert isinstance(request, IsolatedRequest)
    return request


def _error_for_pickle(error: Exception) -> BadRequest:
    text = f"a parameter cannot be sent to another process: {raised(error)}"
    return BadRequest(text, hint="give plain values, arrays or values of pyarrow.scalar")


def packed_batch(batch: pa.RecordBatch) -> memoryview:
    """Serialize a batch with its schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def read_batches(payload: bytearray) -> list[pa.RecordBatch]:
    """Deserialize the batches of a message."""
    return list(pa.ipc.open_stream(pa.py_buffer(payload)))


def packed_error(error: BaseException) -> bytes:
    """Serialize an error with its fields; values that JSON lacks become null."""
    typed = error if isinstance(error, OmnigraphError) else _error_for_exception(error)
    fields = {name: value if _is_plain(value) else None for name, value in vars(typed).items()}
    fields["diagnostics"] = []
    return json.dumps({"kind": type(typed).__name__, "message": typed.message, "fields": fields}).encode()


def read_error(payload: bytes | bytearray) -> OmnigraphError:
    """Deserialize an error of the child process."""
    try:
        entry = json.loads(payload)
        kind = getattr(errors, entry["kind"], Internal)
        fields = dict(entry["fields"])
        message = str(entry["message"])
    except (ValueError, KeyError, TypeError):
        return Internal("the error of the engine process cannot be read", hint="please report it")
    if not (isinstance(kind, type) and issubclass(kind, OmnigraphError)):
        kind = Internal
    fields["diagnostics"] = ()
    error: OmnigraphError = errors._restore(kind, message)
    for name, value in {**fields, "message": message}.items():
        setattr(error, name, value)
    return error


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _error_for_exception(error: BaseException) -> Internal:
    lines = str(error).strip().splitlines()
    hint = "this is a defect in omnigraph-sql; please report it with the statement"
    return Internal(f"the statement could not be run: {type(error).__name__}: {lines[0] if lines else ''}", hint=hint)


def sendable(name: str, value: Any, bind: Callable[[str, Any], pa.Scalar]) -> Any:
    """Convert a parameter to builtin, NumPy or Arrow values that bind to the same scalar; `bind` raises if it fails.

    The child process cannot import the classes of the caller.
    """
    if type(value) in _PLAIN or isinstance(value, np.generic | pa.Scalar | pa.Array | pa.ChunkedArray):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return np.asarray(value)
    if type(value) in (list, tuple):
        return [sendable(name, element, bind) for element in value]
    if type(value) is dict:
        return {sendable(name, key, bind): sendable(name, element, bind) for key, element in value.items()}
    return bind(name, value).as_py()
