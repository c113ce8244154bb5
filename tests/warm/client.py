"""The executable that stands for `ogsql`: it hands its arguments and streams to the server and ends as the fork does."""

from __future__ import annotations

from typing import Final

SCRIPT: Final = """#!{python} -IS
import array, json, os, signal, socket, sys

connection = socket.socket(socket.AF_UNIX)
connection.connect("{address}")
environment = {{name: value for name, value in os.environb.items()}}
request = [
    [os.fsencode(word).hex() for word in sys.argv[1:]],
    os.getcwdb().hex(),
    [[name.hex(), value.hex()] for name, value in environment.items()],
    os.umask(0),
]
text = json.dumps(request).encode()
socket.send_fds(connection, [len(text).to_bytes(8, "big")], [0, 1, 2])
connection.sendall(text)
status = int(connection.recv(16) or b"1")
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""
"""The client as a text with the places `python` and `address`."""
