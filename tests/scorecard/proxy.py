# SPDX-License-Identifier: Apache-2.0
"""What does a bad network do to a request? It or its answer is lost, the connection is reset, or all stands still.

A TCP proxy for one server; what befalls a connection is drawn when it is opened.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Self

CHUNK_BYTES = 65_536
LINGER = struct.pack("ii", 1, 0)
"""Closing then sends a reset in place of an end (man 7 socket, SO_LINGER)."""

FATES = (
    ("passed", 0.58),
    ("request lost", 0.1),
    ("reset in the request", 0.1),
    ("answer lost", 0.1),
    ("reset before the answer", 0.1),
    ("stalled", 0.02),
)


class Proxy:
    """Listens at `url` and hands on to `port`, badly. `stall_seconds` is longer than its callers wait."""

    def __init__(self, port: int, seed: int, stall_seconds: float) -> None:
        self._port = port
        self._stall_seconds = stall_seconds
        self._random = Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.fates: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        names, weights = zip(*FATES, strict=True)
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            fate = self._random.choices(names, weights)[0]
            self.fates[fate] += 1
            threading.Thread(target=self._serve, args=(caller, fate), daemon=True).start()

    def _serve(self, caller: socket.socket, fate: str) -> None:
        with caller, suppress(OSError):
            caller.settimeout(30)
            if fate == "request lost":
                caller.recv(CHUNK_BYTES)
                return
            with socket.create_connection(("127.0.0.1", self._port), timeout=30) as server:
                if fate == "reset in the request":
                    server.sendall(caller.recv(CHUNK_BYTES)[:-1])
                    _reset(caller)
                    return
                # The server is asked all of it; the caller may never learn what it said.
                threading.Thread(target=_pump, args=(caller, server), daemon=True).start()
                self._answer(server, caller, fate)

    def _answer(self, server: socket.socket, caller: socket.socket, fate: str) -> None:
        data = server.recv(CHUNK_BYTES)
        if fate == "answer lost":
            return
        if fate == "reset before the answer":
            _reset(caller)
            return
        if fate == "stalled":
            time.sleep(self._stall_seconds)
        while data:
            caller.sendall(data)
            data = server.recv(CHUNK_BYTES)


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
    connection.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            sink.sendall(data)
